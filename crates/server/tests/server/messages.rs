//! Publish and subscribe, also across workers.

use crate::client::Bench;

#[test]
fn messages_reach_subscribers_of_all_workers_in_order() {
    let bench = Bench::start(&[("threads", "2")]);
    let mut speaker = bench.client();
    let mut listeners: Vec<_> = (0..6).map(|_| bench.client()).collect();
    for (number, listener) in listeners.iter_mut().enumerate() {
        if number % 2 == 0 {
            listener.check("subscribe news", "*[subscribe news :1]");
        } else {
            listener.request("hello 3");
            listener.check("psubscribe n?ws", ">[psubscribe n?ws :1]");
        }
    }
    speaker.check("pubsub numsub news other", "*[news :3 other :0]");
    speaker.check("pubsub numpat", ":1");
    for number in 0..500 {
        speaker.check(&format!("publish news {number}"), ":6");
    }
    for (index, listener) in listeners.iter_mut().enumerate() {
        for number in 0..500 {
            let expected = if index % 2 == 0 {
                format!("*[message news {number}]")
            } else {
                format!(">[pmessage n?ws news {number}]")
            };
            assert_eq!(listener.reply(), expected);
        }
    }
}

#[test]
fn a_resp2_subscriber_may_run_only_few_commands() {
    let bench = Bench::start(&[]);
    let mut client = bench.client();
    client.check("subscribe a", "*[subscribe a :1]");
    client.check("ping", "*[pong ]");
    client.check("get a", "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context");
    client.check("unsubscribe", "*[unsubscribe a :0]");
    client.check("unsubscribe", "*[unsubscribe nil :0]");
    client.check("get a", "nil");
}

#[test]
fn enabled_keyspace_events_are_published() {
    let bench = Bench::start(&[("notify-keyspace-events", "KEA")]);
    let (mut listener, mut client) = (bench.client(), bench.client());
    listener.check("psubscribe __key*@0__:*", "*[psubscribe __key*@0__:* :1]");
    client.check("set a 1", "+OK");
    assert_eq!(
        listener.reply(),
        "*[pmessage __key*@0__:* __keyspace@0__:a set]"
    );
    assert_eq!(
        listener.reply(),
        "*[pmessage __key*@0__:* __keyevent@0__:set a]"
    );
    client.check("config set notify-keyspace-events Ex", "+OK");
    client.check("del a", ":1");
    client.check("set a 1 px 1", "+OK");
    assert_eq!(
        listener.reply(),
        "*[pmessage __key*@0__:* __keyevent@0__:expired a]"
    );
}

#[test]
fn changed_elements_are_published_on_four_channels() {
    let bench = Bench::start(&[("notify-keyspace-events", "STIVhxg")]);
    let (mut listener, mut client) = (bench.client(), bench.client());
    listener.check("psubscribe __*", "*[psubscribe __* :1]");
    let mut expect = |channel: &str, payload: &str| {
        let wanted = format!("*[pmessage __* __{channel} {payload}]");
        assert_eq!(listener.reply(), wanted);
    };
    client.check("hset h a 1 bc 2", ":2");
    expect("subkeyspace@0__:h", "hset|1:a,2:bc");
    expect("subkeyevent@0__:hset", "1:h|1:a,2:bc");
    expect("subkeyspaceitem@0__:h\na", "hset");
    expect("subkeyspaceitem@0__:h\nbc", "hset");
    expect("subkeyspaceevent@0__:hset|h", "1:a,2:bc");
    client.check("config set notify-keyspace-events Th", "+OK");
    client.check("hpexpire h 1 fields 1 bc", "*[:1]");
    expect("subkeyevent@0__:hexpire", "1:h|2:bc");
    // The field expires without being accessed.
    expect("subkeyevent@0__:hexpired", "1:h|2:bc");
}
