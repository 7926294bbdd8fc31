//! The thread that learns which segments are worth least, beside those that serve.
//!
//! It wakes some times a second, looks whether a sample, a training or a ranking is wanted, and sleeps. The system gives it a
//! processor when nobody else wants one (`nice` 19). With the workers it shares the lock that each of them takes once a segment, for
//! some instructions at a time, and what INFO tells. Where the processor is taken from it just then, they wait until it comes back.
//!
//! # Under load
//! The more a cache misses the more often segments must be ranked; and misses come in numbers when load is high. So the work
//! is bounded by time alone: `learn-cpu` percent of a core, saved for ten seconds at most; what is over is paid back before
//! anything else is done. Where the processor is busy with others, so that a ranking or a training takes much longer than its own time,
//! rankings pause; after two in a row samples and trainings, too. What is due then is tried after the pause, and the next pause is
//! twice as long, until one of both is in time. Samples take too little time to tell. The engine evicts by age meanwhile.
//!
//! What was learned is kept in memory alone: a server that starts has learned nothing, and there is no file that could be
//! missing or stale.

use crate::config::{Config, Id};
use crate::engine::segment::Segments;
use crate::engine::segment::learning::{Report, State};
use crate::state::Server;
use learn::{Heard, Interval, Tutor, Tutoring};
use policy::groups::Groups;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use store::Tick;

/// How long it sleeps after it found something to do, and when it has found nothing for long.
const SLEEP_MIN: Duration = Duration::from_millis(10);
const SLEEP_MAX: Duration = Duration::from_millis(160);
/// Processor time is saved for so many seconds.
const SAVED_SECONDS: f64 = 10.0;
/// A ranking or a training is late that took so many times its own time, and this besides.
const LATE_TIMES: u32 = 8;
const LATE_BEYOND: Duration = Duration::from_millis(20);
/// The pause after a late one; after each further one twice as long, up to 32 times.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_BITS_MAX: u32 = 5;
/// From so many percent on no load is heeded.
const REGARDLESS: i64 = 100;
/// A model that is older tells of another time.
const STALE_MS: u64 = 2 * 24 * 60 * 60 * 1000;
/// The lowest priority.
const NICE: i32 = 19;

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

/// What a look does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Sampling,
    Training,
    Ranking,
}

/// What was seen of others' need for the processor. Times are since the start.
#[derive(Debug, Default)]
struct Strain {
    /// Late rankings and trainings, one after the other.
    late: u32,
    until: Duration,
}

impl Strain {
    /// A step took so long, and so much of a processor. A sampling is over too soon to tell anything.
    fn note(&mut self, step: Step, took: Duration, cpu: Duration, now: Duration) {
        if step == Step::Sampling {
            return;
        }
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

    /// Samples and trainings go on after one that was late, not after two.
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

/// What is put off, and how often that was so.
#[derive(Debug, Default)]
struct PutOff {
    waits: bool,
    count: u64,
}

impl PutOff {
    /// Something is wanted, and is to wait or not; returns whether it is done.
    fn is_done(&mut self, is_wanted: bool, may_be: bool) -> bool {
        let waits = is_wanted && !may_be;
        self.count += u64::from(waits && !self.waits);
        self.waits = waits;
        is_wanted && may_be
    }
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
    trainings: PutOff,
    rankings: PutOff,
    cpu: Duration,
    ranked_before: u64,
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
            trainings: PutOff::default(),
            rankings: PutOff::default(),
            cpu: Duration::ZERO,
            ranked_before: segments.cache.stats().segments_ranked,
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
        let step = self.work(now);
        let spent = cpu_time().saturating_sub(cpu);
        self.allowance.spend(spent);
        self.cpu += spent;
        if let Some(step) = step {
            let ended = self.start.elapsed();
            self.strain.note(step, ended - now, spent, ended);
        }
        self.tell();
        self.sleep = match step {
            Some(_) => SLEEP_MIN,
            None => (self.sleep * 2).min(SLEEP_MAX),
        };
        self.sleep
    }

    /// Does one thing, if something is wanted and may be done. Trainings come before rankings: they are rare, and what was
    /// learned long ago ranks badly.
    fn work(&mut self, now: Duration) -> Option<Step> {
        let cache = &self.segments.cache;
        let heeds_load = self.server.config.number(Id::LearnCpu) < REGARDLESS;
        let has_time = self.allowance.is_left() || !heeds_load;
        let may_train = has_time && (self.strain.may_train(now) || !heeds_load);
        let may_rank = has_time && (self.strain.may_rank(now) || !heeds_load);
        let is_due = self.tutor.wants_training(cache, &self.heard);
        if self.trainings.is_done(is_due, may_train) {
            self.tutor.train(cache, &self.heard);
            return Some(Step::Training);
        }
        let is_used_up = self.tutor.wants_ranking(cache);
        if self.rankings.is_done(is_used_up, may_rank) {
            self.tutor.rank(cache, self.heard.now);
            return Some(Step::Ranking);
        }
        if self.tutor.wants_samples() && may_train {
            self.tutor.sample(cache, self.heard.now);
            return Some(Step::Sampling);
        }
        None
    }

    fn state(&self) -> State {
        let age_ms = |at: Tick| self.heard.now.0.saturating_sub(at.0);
        if self.server.config.number(Id::LearnCpu) == 0 {
            State::Off
        } else if !self.tutor.is_trained() {
            State::Untrained
        } else if self.rankings.waits {
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

    fn tell(&self) {
        let report = Report {
            state: self.state(),
            lessons: self.tutor.lessons(),
            learned_at: self.tutor.learned_at(),
            held_out: self.tutor.held_out().cloned(),
            rankings_put_off: self.rankings.count,
            trainings_put_off: self.trainings.count,
            cpu: self.cpu,
            span: self.start.elapsed(),
            ranked_before: self.ranked_before,
        };
        // Who asks for INFO waits for the exchange alone.
        let before = std::mem::replace(&mut *self.segments.learning.report(), report);
        drop(before);
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
        let forgotten = Report {
            ranked_before: segments.cache.stats().segments_ranked,
            ..Report::default()
        };
        *segments.learning.report() = forgotten;
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
    fn rankings_pause_first_then_trainings_and_one_in_time_ends_the_strain() {
        let (ms, at) = (Duration::from_millis, Duration::from_secs);
        let mut strain = Strain::default();
        strain.note(Step::Ranking, ms(30), ms(5), at(0));
        assert!(strain.may_rank(at(0)));
        strain.note(Step::Ranking, ms(200), ms(5), at(1));
        assert!(!strain.may_rank(at(1)));
        assert!(strain.may_train(at(1)));
        assert!(strain.may_rank(at(2)), "it is tried again");
        strain.note(Step::Ranking, ms(200), ms(5), at(2));
        assert!(!strain.may_rank(at(3)));
        assert!(!strain.may_train(at(3)));
        assert!(strain.may_rank(at(4)));
        strain.note(Step::Training, ms(6), ms(5), at(4));
        assert!(strain.may_rank(at(4)));
        assert!(strain.may_train(at(4)));
        for turn in 0..40 {
            strain.note(Step::Ranking, at(60), ms(1), at(100 * turn));
            assert!(strain.may_rank(at(100 * turn + 32)));
        }
    }

    #[test]
    fn samples_between_late_rankings_do_not_shorten_the_pauses() {
        let (ms, at) = (Duration::from_millis, Duration::from_secs);
        let mut strain = Strain::default();
        let mut now = at(0);
        for pause in [1, 2, 4, 8, 16, 32, 32] {
            strain.note(Step::Ranking, ms(200), ms(5), now);
            for _ in 0..100 {
                strain.note(Step::Sampling, ms(0), ms(0), now);
            }
            assert!(!strain.may_rank(now + at(pause) - ms(1)));
            now += at(pause);
            assert!(strain.may_rank(now));
        }
    }

    #[test]
    fn what_waits_is_put_off_once_however_often_it_is_looked_at() {
        let mut put_off = PutOff::default();
        for _ in 0..5 {
            assert!(!put_off.is_done(true, false));
        }
        assert_eq!((put_off.count, put_off.waits), (1, true));
        assert!(put_off.is_done(true, true));
        assert!(!put_off.is_done(false, false));
        assert_eq!((put_off.count, put_off.waits), (1, false));
        assert!(!put_off.is_done(true, false));
        assert_eq!(put_off.count, 2);
    }
}
