//! The thread that learns which segments are worth least, beside those that serve.
//!
//! It wakes some times a second, looks whether a sample, a training or a ranking is wanted, and sleeps. No request waits for it:
//! it shares with the workers the lock that each of them takes once a segment, and the system gives it a processor
//! when nobody else wants one (`nice` 19).
//!
//! # Under load
//! The more a cache misses the more often segments must be ranked; and misses come in numbers when load is high. So the work
//! is bounded by time alone: `learn-cpu` percent of a core, saved for ten seconds at most. Where that does not do, and where the
//! processor was busy with others so that a step took much longer than its own time, rankings stop first; with the next late step
//! trainings stop, too; after a pause a ranking is tried again. The engine evicts by age meanwhile.
//!
//! What was learned is kept in memory alone: a server that starts has learned nothing, and there is no file that could be
//! missing or stale.

use super::Segments;
use crate::config::{Config, Id};
use crate::state::Server;
use learn::{Heard, HeldOut, Interval, Tutor, Tutoring};
use policy::Lessons;
use policy::groups::Groups;
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::Tick;

/// How long it sleeps after it found something to do, and when it has found nothing for long.
const SLEEP_MIN: Duration = Duration::from_millis(10);
const SLEEP_MAX: Duration = Duration::from_millis(160);
/// Processor time is saved for so many seconds.
const SAVED_SECONDS: f64 = 10.0;
/// A step is late that took so many times its own time, and this besides.
const LATE_TIMES: u32 = 8;
const LATE_BEYOND: Duration = Duration::from_millis(20);
/// The pause after a late step; after each further one twice as long, up to 32 times.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_BITS_MAX: u32 = 5;
/// From so many percent on no load is heeded.
const REGARDLESS: i64 = 100;
/// A model that is older tells of another time.
const STALE_MS: u64 = 2 * 24 * 60 * 60 * 1000;
/// The lowest priority.
const NICE: i32 = 19;

/// How learning stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The eviction heeds nothing that is learned.
    #[default]
    Off,
    /// There is no model that predicts anything: segments go by age.
    Untrained,
    /// Segments go by what was learned.
    Learned,
    /// They do, and that was long ago.
    Stale,
    /// Rankings, and perhaps trainings, are put off: segments go by age.
    Overloaded,
}

impl State {
    /// As INFO tells it.
    pub fn name(self) -> &'static str {
        match self {
            State::Off => "off",
            State::Untrained => "untrained",
            State::Learned => "learned",
            State::Stale => "stale",
            State::Overloaded => "overloaded",
        }
    }
}

/// What there is to tell of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How it stands.
    pub state: State,
    /// What it did.
    pub lessons: Lessons,
    /// When the last model was learned.
    pub learned_at: Option<Tick>,
    /// What that said of samples that it had not seen.
    pub held_out: Option<HeldOut>,
    /// Rankings that were wanted and not made at once.
    pub rankings_put_off: u64,
    /// The same of trainings.
    pub trainings_put_off: u64,
    /// Processor time, and the time in which it was used.
    pub cpu: Duration,
    /// See `cpu`.
    pub span: Duration,
}

/// What the thread shares with the rest of the server.
#[derive(Debug, Default)]
pub struct Learning {
    report: Mutex<Report>,
    is_rung: Mutex<bool>,
    bell: Condvar,
}

impl Learning {
    /// What there is to tell.
    pub fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread.
    pub fn ring(&self) {
        *self.is_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Sleeps until it is woken, or for so long.
    fn sleep(&self, time: Option<Duration>) {
        let is_rung = self.is_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_rung = match time {
            Some(time) => {
                let woken = self.bell.wait_timeout_while(is_rung, time, |rung| !*rung);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let woken = self.bell.wait_while(is_rung, |rung| !*rung);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
        };
        *is_rung = false;
    }
}

/// Processor time that may be used: a share of the time that has passed.
#[derive(Debug, Default)]
struct Allowance {
    seconds: f64,
}

impl Allowance {
    fn earn(&mut self, passed: Duration, percent: i64) {
        let share = percent as f64 / 100.0;
        self.seconds += passed.as_secs_f64() * share;
        self.seconds = self.seconds.min(SAVED_SECONDS * share);
    }

    fn spend(&mut self, cpu: Duration) {
        self.seconds -= cpu.as_secs_f64();
    }

    fn is_left(&self) -> bool {
        self.seconds > 0.0
    }
}

/// What was seen of others' need for the processor. Times are since the start.
#[derive(Debug, Default)]
struct Strain {
    /// Late steps, one after the other.
    late: u32,
    until: Duration,
}

impl Strain {
    /// A step took so long, and so much of a processor.
    fn note(&mut self, took: Duration, cpu: Duration, now: Duration) {
        if took <= cpu * LATE_TIMES + LATE_BEYOND {
            self.late = 0;
            return;
        }
        self.until = now + PAUSE * (1 << self.late.min(PAUSE_BITS_MAX));
        self.late += 1;
    }

    fn may_rank(&self, now: Duration) -> bool {
        self.late == 0 || now >= self.until
    }

    /// Trainings go on after one late step, not after two.
    fn may_train(&self, now: Duration) -> bool {
        self.late < 2 || now >= self.until
    }
}

/// The processor time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Learns from the moment at which the eviction heeds it to the one at which another takes over.
struct Learner<'s> {
    server: &'s Server,
    segments: &'s Segments,
    tutor: Tutor,
    start: Instant,
    looked: Duration,
    allowance: Allowance,
    strain: Strain,
    /// Requests and misses at the last look, and in all: CONFIG RESETSTAT sets the former back.
    counted: (u64, u64),
    heard: Heard,
    sleep: Duration,
}

impl<'s> Learner<'s> {
    fn new(server: &'s Server, segments: &'s Segments) -> Self {
        let tutoring = Tutoring {
            interval: interval(&server.config),
            seed: segments.seed,
            ..Tutoring::default()
        };
        Learner {
            server,
            segments,
            tutor: Tutor::new(&tutoring),
            start: Instant::now(),
            looked: Duration::ZERO,
            allowance: Allowance::default(),
            strain: Strain::default(),
            counted: (0, 0),
            heard: Heard::default(),
            sleep: SLEEP_MIN,
        }
    }

    fn hear(&mut self) {
        let stats = &self.server.stats;
        let misses = stats.sum(|worker| &worker.segment_misses);
        let hits = stats.sum(|worker| &worker.segment_hits);
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let missed = since(misses, self.counted.1);
        self.heard.requests += missed + since(hits, self.counted.0);
        self.heard.misses += missed;
        self.counted = (hits, misses);
        self.heard.now = self.server.clock.now();
        self.tutor.hear(&self.segments.cache, &self.heard);
    }

    /// One look, and what it shows to be done; how long to sleep then.
    fn turn(&mut self) -> Duration {
        let cpu = cpu_time();
        let now = self.start.elapsed();
        let percent = self.server.config.number(Id::LearnCpu);
        self.allowance.earn(now - self.looked, percent);
        self.looked = now;
        self.hear();
        let is_worked = self.work(now);
        let spent = cpu_time().saturating_sub(cpu);
        self.allowance.spend(spent);
        if is_worked {
            let ended = self.start.elapsed();
            self.strain.note(ended - now, spent, ended);
        }
        self.tell(spent);
        self.sleep = match is_worked {
            true => SLEEP_MIN,
            false => (self.sleep * 2).min(SLEEP_MAX),
        };
        self.sleep
    }

    /// Does one thing, if something is wanted and may be done. Trainings come before rankings: they are rare, and what was
    /// learned long ago ranks badly.
    fn work(&mut self, now: Duration) -> bool {
        let cache = &self.segments.cache;
        let heeds_load = self.server.config.number(Id::LearnCpu) < REGARDLESS;
        let has_time = self.allowance.is_left() || !heeds_load;
        let may_train = self.strain.may_train(now) || !heeds_load;
        let may_rank = self.strain.may_rank(now) || !heeds_load;
        if self.tutor.wants_training(cache, &self.heard) {
            if has_time && may_train {
                self.tutor.train(cache, &self.heard);
                return true;
            }
            self.segments.learning.report().trainings_put_off += 1;
        }
        if self.tutor.wants_ranking(cache) {
            if has_time && may_rank {
                self.tutor.rank(cache, self.heard.now);
                return true;
            }
            self.segments.learning.report().rankings_put_off += 1;
        }
        if self.tutor.wants_samples() && has_time && may_train {
            self.tutor.sample(cache, self.heard.now);
            return true;
        }
        false
    }

    fn state(&self) -> State {
        let age_ms = |at: Tick| self.heard.now.0.saturating_sub(at.0);
        if !self.tutor.is_trained() {
            State::Untrained
        } else if self.tutor.wants_ranking(&self.segments.cache) {
            State::Overloaded
        } else if self
            .tutor
            .learned_at()
            .is_some_and(|at| age_ms(at) > STALE_MS)
        {
            State::Stale
        } else {
            State::Learned
        }
    }

    fn tell(&self, spent: Duration) {
        let mut report = self.segments.learning.report();
        report.state = self.state();
        report.lessons = self.tutor.lessons();
        report.learned_at = self.tutor.learned_at();
        report.held_out = self.tutor.held_out().cloned();
        report.cpu += spent;
        report.span = self.start.elapsed();
    }
}

fn interval(config: &Config) -> Interval {
    match config.number(Id::LearnInterval) {
        0 => Interval::Auto,
        requests => Interval::Requests(u32::try_from(requests).unwrap_or(u32::MAX)),
    }
}

/// Learns until the server stops; sleeps as long as the eviction does not heed it.
pub fn run(server: &Server) {
    let Some(segments) = &server.segments else {
        return;
    };
    // Of this thread alone; a system that declines is merely less kind to others.
    let _declined = rustix::process::setpriority_process(None, NICE);
    while !server.stops() {
        if !segments.cache.wants_lessons() {
            segments.learning.sleep(None);
            continue;
        }
        let mut learner = Learner::new(server, segments);
        while !server.stops() && segments.cache.wants_lessons() {
            let sleep = learner.turn();
            segments.learning.sleep(Some(sleep));
        }
        *segments.learning.report() = Report::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_is_saved_for_ten_seconds_and_debts_are_paid() {
        let mut allowance = Allowance::default();
        assert!(!allowance.is_left());
        allowance.earn(Duration::from_secs(1000), 5);
        allowance.spend(Duration::from_millis(499));
        assert!(allowance.is_left());
        allowance.spend(Duration::from_millis(101));
        assert!(!allowance.is_left());
        allowance.earn(Duration::from_millis(1_900), 5);
        assert!(!allowance.is_left());
        allowance.earn(Duration::from_millis(200), 5);
        assert!(allowance.is_left());
        let mut none = Allowance::default();
        none.earn(Duration::from_secs(1000), 0);
        assert!(!none.is_left());
    }

    #[test]
    fn rankings_go_first_then_trainings_and_a_step_in_time_ends_the_strain() {
        let (ms, at) = (Duration::from_millis, Duration::from_secs);
        let mut strain = Strain::default();
        strain.note(ms(30), ms(5), at(0));
        assert!(strain.may_rank(at(0)));
        strain.note(ms(200), ms(5), at(1));
        assert!(!strain.may_rank(at(1)));
        assert!(strain.may_train(at(1)));
        assert!(strain.may_rank(at(2)), "it is tried again");
        strain.note(ms(200), ms(5), at(2));
        assert!(!strain.may_rank(at(3)));
        assert!(!strain.may_train(at(3)));
        assert!(strain.may_rank(at(4)));
        strain.note(ms(6), ms(5), at(4));
        assert!(strain.may_rank(at(4)));
        assert!(strain.may_train(at(4)));
        for turn in 0..40 {
            strain.note(at(60), ms(1), at(100 * turn));
            assert!(strain.may_rank(at(100 * turn + 32)));
        }
    }
}
