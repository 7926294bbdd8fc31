//! Servers of the origins: which one receives a request, and their health checks.

use super::circuit::Circuit;
use crate::body::Content;
use crate::clock::Clock;
use crate::config::{Health, Origin};
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Client for all origins.
pub(super) type OriginClient = Client<HttpsConnector<HttpConnector>, Content>;

/// Number of failed checks in a row after which a server receives no requests.
const FAILED_CHECKS_MAX: u32 = 2;

/// A server, which several origins may share.
#[derive(Debug)]
pub(super) struct Server {
    pub url: Uri,
    pub circuit: Circuit,
    /// Number of requests whose response has not begun.
    open: AtomicUsize,
    /// Number of requests so far.
    sent: AtomicU64,
    /// Whether health checks fail.
    is_unhealthy: AtomicBool,
}

/// Request that a server has not answered yet.
pub(super) struct Open(Arc<Server>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl Server {
    pub fn new(url: Uri) -> Self {
        Server {
            url,
            circuit: Circuit::default(),
            open: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
            is_unhealthy: AtomicBool::new(false),
        }
    }

    pub fn is_down(&self) -> bool {
        self.circuit.is_doubtful() && self.circuit.down_since_ms().is_some()
    }

    /// Counts a request until the result is dropped.
    pub fn begin(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Relaxed);
        self.sent.fetch_add(1, Relaxed);
        Open(self.clone())
    }

    /// Returns the numbers of all requests and of those without an answer yet.
    pub fn load(&self) -> (u64, usize) {
        (self.sent.load(Relaxed), self.open.load(Relaxed))
    }
}

/// Servers of the requests for some hosts.
#[derive(Debug)]
pub(super) struct Route {
    pub hosts: Vec<String>,
    pub servers: Vec<Arc<Server>>,
    pub health: Option<Health>,
    /// Number of choices so far, so that servers with equally many requests take turns.
    turn: AtomicUsize,
}

impl Route {
    pub fn new(origin: &Origin, servers: Vec<Arc<Server>>) -> Self {
        Route {
            hosts: origin.hosts.clone(),
            servers,
            health: origin.health.clone(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Returns true if health checks of this route say that a server fails. Without checks nothing
    /// would end that state.
    pub fn is_out(&self, server: &Server) -> bool {
        self.health.is_some() && server.is_unhealthy.load(Relaxed)
    }

    /// Returns the server for a request: of those that answer, the one with the fewest open
    /// requests. Without health checks, a server that is down receives one request in a while, if
    /// the request can be repeated elsewhere. Returns `None` if no server may receive it.
    pub fn choose(
        &self,
        now_ms: u64,
        tried: &[Arc<Server>],
        is_repeatable: bool,
    ) -> Option<&Arc<Server>> {
        let is_left = |server: &&Arc<Server>| !tried.iter().any(|other| Arc::ptr_eq(other, server));
        let left = || self.servers.iter().filter(is_left);
        if is_repeatable && self.health.is_none() {
            let mut down = left().filter(|server| server.is_down());
            if let Some(server) = down.find(|server| server.circuit.admit(now_ms)) {
                return Some(server);
            }
        }
        let count = self.servers.len();
        let turn = self.turn.fetch_add(1, Relaxed) % count.max(1);
        let in_turn = self.servers.iter().cycle().skip(turn).take(count);
        let up = in_turn.filter(is_left);
        let up = up.filter(|server| !server.is_down());
        // Servers whose checks fail come last, and share the requests if all checks fail.
        let least = up.min_by_key(|server| (self.is_out(server), server.open.load(Relaxed)));
        least.or_else(|| left().find(|server| server.circuit.admit(now_ms)))
    }
}

/// Starts the health checks of a route.
pub(super) fn check(route: &Route, client: &OriginClient, clock: &Clock, tasks: &mut JoinSet<()>) {
    let Some(health) = &route.health else {
        return;
    };
    for server in &route.servers {
        let host = route.hosts.first().cloned();
        let host = host.or_else(|| Some(server.url.authority()?.to_string()));
        let checks = Checks {
            server: server.clone(),
            host: host.unwrap_or_default(),
            health: health.clone(),
            client: client.clone(),
            clock: clock.clone(),
        };
        tasks.spawn(checks.run());
    }
}

/// Health checks of one server.
struct Checks {
    server: Arc<Server>,
    host: String,
    health: Health,
    client: OriginClient,
    clock: Clock,
}

impl Checks {
    async fn run(self) {
        let mut ticks = interval(self.health.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failures = 0;
        loop {
            ticks.tick().await;
            let answer = timeout(self.health.interval, self.request()).await;
            let failure = match answer {
                Ok(None) => None,
                Ok(failure) => failure,
                Err(_) => Some("no answer in time".to_owned()),
            };
            let (server, url) = (&self.server, &self.server.url);
            let Some(failure) = failure else {
                failures = 0;
                server.circuit.answered(self.clock.now_ms());
                if server.is_unhealthy.swap(false, Relaxed) {
                    log::info!("origin {url}: its health check succeeds again");
                }
                continue;
            };
            failures += 1;
            if failures >= FAILED_CHECKS_MAX && !server.is_unhealthy.swap(true, Relaxed) {
                log::warn!("origin {url}: its health check fails: {failure}");
            }
        }
    }

    fn message(&self) -> Option<Request<Content>> {
        let mut uri = self.server.url.clone().into_parts();
        uri.path_and_query = Some(self.health.path.parse().ok()?);
        let mut request = Request::new(Content::empty());
        *request.uri_mut() = Uri::from_parts(uri).ok()?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_str(&self.host).ok()?);
        headers.insert(USER_AGENT, HeaderValue::from_static("mayfly health check"));
        Some(request)
    }

    /// Requests the path of the check. Returns the reason if the server is not healthy.
    async fn request(&self) -> Option<String> {
        let Some(request) = self.message() else {
            return Some("the path or the host of the check is not valid".to_owned());
        };
        match self.client.request(request).await {
            Ok(response) if response.status().is_success() => None,
            Ok(response) if response.status().is_redirection() => None,
            Ok(response) => Some(format!("status {}", response.status())),
            Err(error) => Some(super::cause(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(count: usize) -> Route {
        let servers: Vec<_> = (0..count)
            .map(|number| format!("http://server-{number}").parse::<Uri>())
            .map(|url| Arc::new(Server::new(url.expect("the text is valid"))))
            .collect();
        let origin: Origin = "http://a".parse().expect("the text is valid");
        Route::new(&origin, servers)
    }

    fn down(server: &Server) {
        while !server.circuit.failed(0, 0) {}
    }

    fn place(route: &Route, chosen: Option<&Arc<Server>>) -> Option<usize> {
        let chosen = chosen?;
        route
            .servers
            .iter()
            .position(|server| Arc::ptr_eq(server, chosen))
    }

    #[test]
    fn requests_go_to_the_server_with_the_fewest_and_take_turns() {
        let route = route(3);
        let mut counts = [0; 3];
        for _ in 0..9 {
            counts[place(&route, route.choose(0, &[], true)).expect("all are up")] += 1;
        }
        assert_eq!(counts, [3, 3, 3]);
        let open = [route.servers[0].begin(), route.servers[2].begin()];
        for _ in 0..3 {
            assert_eq!(place(&route, route.choose(0, &[], true)), Some(1));
        }
        drop(open);
        let tried = [route.servers[1].clone()];
        assert_ne!(place(&route, route.choose(0, &tried, true)), Some(1));
    }

    #[test]
    fn a_server_that_is_down_receives_one_repeatable_request_in_a_while() {
        let route = route(2);
        down(&route.servers[0]);
        for is_repeatable in [true, false] {
            assert_eq!(place(&route, route.choose(10, &[], is_repeatable)), Some(1));
        }
        let later = super::super::RETRY_MS;
        assert_eq!(place(&route, route.choose(later, &[], false)), Some(1));
        assert_eq!(place(&route, route.choose(later, &[], true)), Some(0));
        assert_eq!(place(&route, route.choose(later, &[], true)), Some(1));
        down(&route.servers[1]);
        assert_eq!(place(&route, route.choose(later, &[], true)), Some(1));
        assert_eq!(place(&route, route.choose(later, &[], true)), None);
    }

    #[test]
    fn an_unhealthy_server_receives_requests_only_if_all_are_unhealthy() {
        let mut route = route(2);
        route.health = Some(Health {
            path: "/".to_owned(),
            interval: std::time::Duration::from_secs(1),
        });
        route.servers[1].is_unhealthy.store(true, Relaxed);
        for _ in 0..4 {
            assert_eq!(place(&route, route.choose(0, &[], true)), Some(0));
        }
        route.servers[0].is_unhealthy.store(true, Relaxed);
        let chosen = [0; 4].map(|_| place(&route, route.choose(0, &[], true)));
        assert!(
            chosen.contains(&Some(0)) && chosen.contains(&Some(1)),
            "{chosen:?}"
        );
        // Without checks nothing would end the state.
        route.health = None;
        route.servers[0].is_unhealthy.store(false, Relaxed);
        let chosen = [0; 4].map(|_| place(&route, route.choose(0, &[], true)));
        assert!(chosen.contains(&Some(1)), "{chosen:?}");
    }
}
