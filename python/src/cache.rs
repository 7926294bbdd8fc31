//! The cache of the Rust library, with Python objects as keys and values.
//!
//! Every call holds the interpreter's lock, and the library never runs Python code under one of its
//! own locks: its keys compare by identity and carry their hash. The stored key that equals a given
//! object is determined before a change, by a look-up without locks ([`Cache::stored`]); only there
//! does `__eq__` run (`search.rs`). Code that re-enters the cache therefore finds no lock held, and
//! a fork copies none.
//!
//! The library's timer is not used, because a thread unknown to Python cannot run Python code.
//! `_timer.py` removes expired entries on a Python thread.

use crate::search::{Key, Raised, Search};
use library::{BuildError, CacheBuilder, Cause, Clock};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of look-ups before a change fails because `__eq__` changes the cache each time.
const TRIES: usize = 64;
/// Number of slices that the timer removes per call, so that other Python threads wait little.
const SLICES: usize = 16;
thread_local! {
    /// Weight of the entry that is being inserted.
    static WEIGHT: Cell<u32> = const { Cell::new(1) };
    /// Whether this thread removes expired entries for the timer.
    static IS_TIMER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the program ends, so that the timer's thread returns after its current call.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Value of an entry. When the entry has left, the object is released immediately, while the
/// library keeps the entry's memory for readers that may have found it. Both happen under the
/// interpreter's lock, so that a reader sees either the object or none.
pub struct Value(UnsafeCell<Option<Py<PyAny>>>);

// SAFETY: all accesses are under the interpreter's lock, and none runs code of Python.
unsafe impl Sync for Value {}

impl Value {
    /// Returns the object; `None` if the entry has left.
    #[inline]
    fn get(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        // SAFETY: this thread has the interpreter's lock, and a clone runs no other code.
        let object = unsafe { &*self.0.get() };
        object.as_ref().map(|object| object.clone_ref(py))
    }

    fn take(&self, _py: Python<'_>) -> Option<Py<PyAny>> {
        // SAFETY: this thread has the interpreter's lock, and `take` runs no other code.
        let object = unsafe { &mut *self.0.get() };
        object.take()
    }

    /// Reports the object to the garbage collector, which holds the interpreter's lock.
    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: as in `get`.
        visit.call(unsafe { &*self.0.get() })
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        Value(UnsafeCell::new(Python::attach(|py| self.get(py))))
    }
}

/// A time source for tests, which stands still until `advance` moves it.
#[pyclass(frozen, module = "mayfly")]
pub struct ManualClock(library::ManualClock);

#[pymethods]
impl ManualClock {
    #[new]
    fn new() -> Self {
        ManualClock(library::ManualClock::new())
    }

    /// Moves the clock forward.
    fn advance(&self, seconds: f64) -> PyResult<()> {
        self.0.advance(span("seconds", seconds)?);
        Ok(())
    }
}

/// Python objects that the library's hooks call.
#[derive(Default)]
struct Hooks {
    listener: Mutex<Option<Py<PyAny>>>,
    weigher: Mutex<Option<Py<PyAny>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hook(py: Python<'_>, hook: &Mutex<Option<Py<PyAny>>>) -> Option<Py<PyAny>> {
    lock(hook).as_ref().map(|hook| hook.clone_ref(py))
}

/// Base class of the cache. `reads.rs` derives the class that users see.
#[pyclass(frozen, subclass, weakref, module = "mayfly._native", name = "_Cache")]
pub struct Cache {
    inner: library::Cache<Key, Value>,
    hooks: Arc<Hooks>,
    /// Number of insertions. A look-up is repeated if an insertion happens during it.
    version: AtomicU64,
    has_deadlines: bool,
    is_manual: bool,
    /// Instant for which the timer thread is set, in milliseconds of [`now_ms`].
    alarm_ms: AtomicU64,
    policy: String,
}

type Right = library::Loading<Key, Value, library::RandomState>;

/// Load of a key. Its value is not stored if the key changes meanwhile.
#[pyclass(frozen, module = "mayfly._native")]
pub struct Loading {
    cache: Py<Cache>,
    /// Right to store the value; `None` after the load has ended.
    right: Mutex<Option<Right>>,
}

#[pymethods]
impl Loading {
    /// Returns true if the key has changed since the load began and the load has not ended.
    fn is_outdated(&self) -> bool {
        let right = lock(&self.right);
        right.as_ref().is_some_and(|right| !right.is_current())
    }

    /// Ends the load, and stores its value unless the key has changed.
    fn store(&self, value: &Bound<'_, PyAny>, ttl: Option<f64>) -> PyResult<()> {
        let ttl = optional_span("ttl", ttl)?;
        let right = lock(&self.right).take();
        match right {
            Some(right) => Cache::finish(self.cache.bind(value.py()), right, value, ttl),
            None => Ok(()),
        }
    }

    /// Ends the load without a value.
    fn end(&self) {
        let right = lock(&self.right).take();
        drop(right);
    }
}

fn now_ms() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// Converts seconds to a duration, or returns an error that names the argument.
fn span(name: &str, seconds: f64) -> PyResult<Duration> {
    // A comparison with NaN is false.
    if !(seconds > 0.0) {
        let text = format!("{name} {seconds}: expected seconds, more than 0");
        return Err(PyValueError::new_err(text));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn optional_span(name: &str, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    seconds.map(|seconds| span(name, seconds)).transpose()
}

fn entries_of(capacity: &Bound<'_, PyAny>) -> PyResult<u64> {
    capacity.extract().map_err(|_| {
        PyValueError::new_err(format!(
            "capacity {capacity}: expected a number of entries, or of weight, from 0 to {}",
            u64::MAX
        ))
    })
}

fn refused(error: &BuildError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns the exception for a key without a live entry. The key is wrapped, because PyO3 would
/// treat a tuple as the argument list.
fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err((key.clone().unbind(),))
}

fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Expired => "expired",
        Cause::Evicted => "evicted",
        Cause::Replaced => "replaced",
        Cause::Removed => "removed",
    }
}

/// Releases the value of an entry that has left, and calls the listener with it. Exceptions of the
/// listener are reported as unraisable, because no caller waits for it.
fn release(hooks: &Hooks, key: &Key, value: &Value, cause: Cause) {
    Python::attach(|py| {
        let Some(object) = value.take(py) else {
            return;
        };
        // At the end of the program a thread that waits for the interpreter's lock is stopped in
        // the middle of a call, which must not be one of this module.
        if IS_TIMER.get() && IS_ENDING.load(Relaxed) {
            return;
        }
        let (Some(listener), Key::Stored(key, _)) = (hook(py, &hooks.listener), key) else {
            return;
        };
        let arguments = (key.clone_ref(py), object, cause_name(cause));
        if let Err(error) = listener.call1(py, arguments) {
            error.write_unraisable(py, Some(listener.bind(py)));
        }
    });
}

/// Makes the timer thread return soon, because the program is ending.
#[pyfunction]
pub fn end_expiry() {
    IS_ENDING.store(true, Relaxed);
}

impl Cache {
    /// Returns the value of a live entry, and registers a hit.
    #[inline]
    pub fn look(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        self.find(py, key).map_err(|Raised| PyErr::fetch(py))
    }

    /// Returns the value like [`Cache::look`], but leaves an exception set instead of returning it.
    #[inline]
    pub fn find(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
    ) -> Result<Option<Py<PyAny>>, Raised> {
        let search = Search::begin(key, false)?;
        let found = self.inner.read(&*search.key(), |value| value.get(py));
        search.close(py)?;
        Ok(found.flatten())
    }

    /// Returns the stored key that equals an object, or else the object itself as a key to store.
    fn stored(&self, key: &Bound<'_, PyAny>) -> PyResult<(Key, bool)> {
        for _ in 0..TRIES {
            let search = Search::new(key, true)?;
            let hash = search.hash;
            let version = self.version.load(Relaxed);
            let is_live = self.inner.contains_key(&*search.key());
            let matched = search.end()?;
            if self.version.load(Relaxed) != version {
                continue;
            }
            return Ok(match matched {
                Some(object) => (Key::Stored(object, hash), is_live),
                None => (Key::Stored(key.clone().unbind(), hash), false),
            });
        }
        Err(PyRuntimeError::new_err(
            "the cache was changed by __eq__ of its keys during every look-up",
        ))
    }

    fn weigh(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<u32> {
        let Some(weigher) = hook(key.py(), &self.hooks.weigher) else {
            return Ok(1);
        };
        let weight = weigher.bind(key.py()).call1((key, value))?;
        weight.extract().map_err(|_| {
            PyValueError::new_err(format!(
                "weigher: returned {weight}: expected an integer from 0 to {}",
                u32::MAX
            ))
        })
    }

    /// Inserts an entry. `ttl` overrides the time to live of the cache.
    pub fn store(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<Duration>,
    ) -> PyResult<()> {
        let this = slf.get();
        let weight = this.weigh(key, value)?;
        let (key, _) = this.stored(key)?;
        let value = Value(UnsafeCell::new(Some(value.clone().unbind())));
        this.version.fetch_add(1, Relaxed);
        // Nothing runs between this and the library's call of its weigher.
        WEIGHT.set(weight);
        match ttl {
            None => this.inner.insert(key, value),
            Some(ttl) => this.inner.insert_with_ttl(key, value, ttl),
        }
        Cache::set_alarm(slf)
    }

    /// Wakes the timer's thread if it would sleep beyond the next deadline.
    fn set_alarm(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        if !this.has_deadlines || this.is_manual {
            return Ok(());
        }
        let Some(wait) = this.inner.next_expiry() else {
            return Ok(());
        };
        let due = now_ms().saturating_add(wait.as_millis() as u64);
        if due < this.alarm_ms.load(Relaxed) {
            static SCHEDULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let py = slf.py();
            if SCHEDULE.get(py).is_none() {
                // Not within the cell, which a signal handler would find locked. A handler within
                // the import finds no function; the next change sets the alarm.
                let Some(found) = py.import("mayfly._timer")?.getattr_opt("schedule")? else {
                    return Ok(());
                };
                let _ = SCHEDULE.set(py, found.unbind());
            }
            let Some(schedule) = SCHEDULE.get(py) else {
                return Ok(());
            };
            this.alarm_ms.store(due, Relaxed);
            if let Err(error) = schedule.call1(py, (slf, wait.as_secs_f64())) {
                // Such as an interruption; the next change sets the alarm.
                this.alarm_ms.store(u64::MAX, Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the seconds until an entry expires, or `None` if it does not expire.
    pub fn left(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let search = Search::new(key, false)?;
        let left = self.inner.time_to_live(&*search.key());
        search.end()?;
        Ok(left.map(|left| left.as_secs_f64()))
    }

    /// Inserts the value of a load, unless its key has changed since the load began.
    fn finish(
        slf: &Bound<'_, Self>,
        right: Right,
        value: &Bound<'_, PyAny>,
        ttl: Option<Duration>,
    ) -> PyResult<()> {
        let this = slf.get();
        let py = slf.py();
        let Key::Stored(key, _) = right.key() else {
            return Ok(());
        };
        let weight = this.weigh(&key.clone_ref(py).into_bound(py), value)?;
        let value = Value(UnsafeCell::new(Some(value.clone().unbind())));
        this.version.fetch_add(1, Relaxed);
        // Nothing runs between this and the library's call of its weigher.
        WEIGHT.set(weight);
        match ttl {
            None => right.complete(value),
            Some(ttl) => right.complete_with_ttl(value, ttl),
        }
        Cache::set_alarm(slf)
    }

    fn pairs(&self, py: Python<'_>) -> Vec<(Py<PyAny>, Py<PyAny>)> {
        let mut pairs = Vec::new();
        self.inner.for_each(|key, value| {
            if let (Key::Stored(key, _), Some(value)) = (key, value.get(py)) {
                pairs.push((key.clone_ref(py), value));
            }
        });
        pairs
    }
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (capacity, *, ttl=None, tti=None, jitter=0.0, policy="s3fifo-w", weigher=None,
        listener=None, clock=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "each is an argument of the Python class"
    )]
    fn new(
        capacity: &Bound<'_, PyAny>,
        ttl: Option<f64>,
        tti: Option<f64>,
        jitter: f64,
        policy: &str,
        weigher: Option<Py<PyAny>>,
        listener: Option<Py<PyAny>>,
        clock: Option<&ManualClock>,
    ) -> PyResult<Cache> {
        let entries = entries_of(capacity)?;
        let hooks = Arc::new(Hooks {
            listener: Mutex::new(listener),
            weigher: Mutex::new(weigher),
        });
        let mut builder: CacheBuilder<Key, Value> = library::Cache::builder(entries)
            .timer(library::Timer::Manual)
            .shards(1)
            .jitter(jitter)
            .policy_named(policy);
        if lock(&hooks.weigher).is_some() {
            builder = builder.weigher(|_, _| WEIGHT.get());
        }
        let leaving = hooks.clone();
        builder = builder.listener(move |key, value, cause| release(&leaving, key, value, cause));
        if let Some(ttl) = optional_span("ttl", ttl)? {
            builder = builder.ttl(ttl);
        }
        if let Some(tti) = optional_span("tti", tti)? {
            builder = builder.tti(tti);
        }
        if let Some(clock) = clock {
            builder = builder.clock(Clock::Manual(clock.0.clone()));
        }
        Ok(Cache {
            inner: builder.build().map_err(|error| refused(&error))?,
            hooks,
            version: AtomicU64::new(0),
            has_deadlines: true,
            is_manual: clock.is_some(),
            alarm_ms: AtomicU64::new(u64::MAX),
            policy: policy.into(),
        })
    }

    fn __setitem__(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        Cache::store(slf, key, value, None)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (stored, _) = self.stored(key)?;
        // Also without an entry, because the removal ends loads of the key.
        match self.inner.remove(&stored) {
            true => Ok(()),
            false => Err(missing(key)),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let search = Search::new(key, false)?;
        let is_there = self.inner.contains_key(&*search.key());
        search.end()?;
        Ok(is_there)
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.keys(py)?.into_any().try_iter().map(Bound::into_any)
    }

    fn __repr__(&self) -> String {
        format!(
            "<mayfly.Cache: {} entries, capacity {}, policy {}>",
            self.inner.len(),
            self.inner.capacity(),
            self.policy
        )
    }

    /// Returns the value of a key without registering a hit, or returns `default`.
    #[pyo3(signature = (key, default=None, /))]
    fn peek(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let search = Search::new(key, false)?;
        let found = self.inner.peek(&*search.key());
        search.end()?;
        let found = found.and_then(|value| value.take(py));
        Ok(found.or(default).unwrap_or_else(|| py.None()))
    }

    /// Inserts or replaces a value. `ttl` in seconds overrides the TTL of the cache.
    #[pyo3(signature = (key, value, /, *, ttl=None))]
    fn set(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<()> {
        Cache::store(slf, key, value, optional_span("ttl", ttl)?)
    }

    /// Returns the value of a key, or stores `default` and returns it.
    #[pyo3(signature = (key, default=None, /))]
    fn setdefault(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if let Some(value) = slf.get().look(py, key)? {
            return Ok(value);
        }
        let value = default.unwrap_or_else(|| py.None());
        Cache::store(slf, key, value.bind(py), None)?;
        Ok(value)
    }

    /// Removes a key and returns its value.
    ///
    /// If the key has no live entry, returns `default`, or raises KeyError without a default.
    #[pyo3(signature = (key, /, *default))]
    fn pop(&self, key: &Bound<'_, PyAny>, default: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err(
                "pop: expected a key and at most one default",
            ));
        }
        let (stored, _) = self.stored(key)?;
        // Also without an entry, because the removal ends loads of the key.
        let taken = self.inner.take(&stored);
        let taken = taken.and_then(|value| value.take(key.py()));
        match (taken, default.iter().next()) {
            (Some(value), _) => Ok(value),
            (None, Some(default)) => Ok(default.unbind()),
            (None, None) => Err(missing(key)),
        }
    }

    /// Removes an arbitrary entry and returns its key and value. Raises KeyError if there is none.
    fn popitem(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        for (key, _) in self.pairs(py) {
            let hash = key.bind(py).hash()? as u64;
            let taken = self.inner.take(&Key::Stored(key.clone_ref(py), hash));
            if let Some(value) = taken.and_then(|value| value.take(py)) {
                return Ok((key, value));
            }
        }
        Err(PyKeyError::new_err("popitem: the cache is empty"))
    }

    /// Inserts the entries of a mapping or of an iterable of pairs, and keywords as entries.
    #[pyo3(signature = (*others, **entries))]
    fn update(
        slf: &Bound<'_, Self>,
        others: &Bound<'_, PyTuple>,
        entries: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let all = slf.py().get_type::<PyDict>().call(others, entries)?;
        // A list, because an insertion may run code that could find and change the dictionary.
        let all: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> =
            all.cast::<PyDict>()?.items().extract()?;
        for (key, value) in all {
            Cache::store(slf, &key, &value, None)?;
        }
        Ok(())
    }

    /// Returns a dictionary of those keys that have a value, and registers the hits.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for key in keys.try_iter()? {
            let key = key?;
            if let Some(value) = self.look(py, &key)? {
                found.set_item(key, value)?;
            }
        }
        Ok(found)
    }

    /// Removes all entries.
    fn clear(&self) {
        self.inner.clear();
    }

    /// Returns the keys of all live entries at the time of the call.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.pairs(py).into_iter().map(|(key, _)| key))
    }

    /// Returns the values of all live entries at the time of the call.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.pairs(py).into_iter().map(|(_, value)| value))
    }

    /// Returns pairs of key and value of all live entries at the time of the call.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.pairs(py))
    }

    /// Returns the seconds until an entry expires.
    ///
    /// Returns None if the key is absent or its entry does not expire.
    fn time_to_live(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        self.left(key)
    }

    /// Sets the seconds until an entry expires; never if None.
    ///
    /// Returns False if the key has no live entry.
    fn set_ttl(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, ttl: Option<f64>) -> PyResult<bool> {
        let ttl = optional_span("ttl", ttl)?;
        let this = slf.get();
        let (stored, is_live) = this.stored(key)?;
        if !(is_live && this.inner.set_ttl(&stored, ttl)) {
            return Ok(false);
        }
        Cache::set_alarm(slf)?;
        Ok(true)
    }

    #[getter]
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    #[setter]
    fn set_capacity(&self, capacity: &Bound<'_, PyAny>) -> PyResult<()> {
        self.inner.set_capacity(entries_of(capacity)?);
        Ok(())
    }

    /// Name of the eviction policy.
    #[getter]
    fn policy(&self) -> &str {
        &self.policy
    }

    /// Returns the counters since the cache was created, and its present size.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.inner.stats();
        let found = PyDict::new(py);
        found.set_item("hits", stats.hits)?;
        found.set_item("misses", stats.misses())?;
        found.set_item("hit_ratio", stats.hit_ratio())?;
        let counts = [
            ("inserted", stats.inserted),
            ("rejected", stats.rejected),
            ("too_heavy", stats.too_heavy),
            ("replaced", stats.replaced),
            ("removed", stats.removed),
            ("evicted", stats.evicted),
            ("expired", stats.expired),
            ("unreported", stats.unreported),
            ("len", stats.len),
            ("weight", stats.weight),
            ("bytes", stats.bytes),
        ];
        for (name, count) in counts {
            found.set_item(name, count)?;
        }
        Ok(found)
    }

    /// Removes all expired entries, and returns their number.
    ///
    /// Only needed with a clock for tests; otherwise a thread removes them on time.
    fn expire(&self) -> usize {
        self.inner.expire()
    }

    /// Begins a load of a key; see `Loading`.
    fn _begin(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<Loading> {
        let this = slf.get();
        let (key, _) = this.stored(key)?;
        Ok(Loading {
            cache: slf.clone().unbind(),
            right: Mutex::new(Some(this.inner.begin_load(key))),
        })
    }

    /// Removes a bounded number of expired entries, for the timer. Returns the seconds until the
    /// next call: 0 if more are due, `None` if no entry has a deadline.
    fn _expire_some(&self) -> Option<f64> {
        IS_TIMER.set(true);
        let mut left = SLICES;
        let mut is_more = true;
        while is_more && left > 0 && !IS_ENDING.load(Relaxed) {
            is_more = self.inner.expire_within(1);
            left -= 1;
        }
        IS_TIMER.set(false);
        if is_more {
            return Some(0.0);
        }
        let wait = self.inner.next_expiry();
        let due = wait.map(|wait| now_ms().saturating_add(wait.as_millis() as u64));
        self.alarm_ms.store(due.unwrap_or(u64::MAX), Relaxed);
        wait.map(|wait| wait.as_secs_f64())
    }

    /// Visits all Python objects that the cache refers to. No lock is taken: the collector may run
    /// inside any call that allocates.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for hook in [&self.hooks.listener, &self.hooks.weigher] {
            if let Ok(hook) = hook.try_lock()
                && let Some(hook) = &*hook
            {
                visit.call(hook)?;
            }
        }
        let mut result = Ok(());
        self.inner.for_each(|key, value| {
            if let (Ok(()), Key::Stored(key, _)) = (&result, key) {
                result = visit.call(key);
            }
            if result.is_ok() {
                result = value.visit(&visit);
            }
        });
        result
    }

    fn __clear__(&self) {
        let listener = lock(&self.hooks.listener).take();
        let weigher = lock(&self.hooks.weigher).take();
        self.inner.clear();
        drop((listener, weigher));
    }
}
