//! Eviction policies written in Python, run by the simulator's host with its counters.
//!
//! The replay holds the interpreter's lock, so that a call of Python takes no lock, and lends it to
//! other threads every [`TURNS`] calls. The interpreter also lends it while it runs a method.

use crate::cells;
use crate::failure::Failure;
use crate::long_call;
use crate::replays::{Replaying, resolved, row, sizes as parse_sizes, table};
use crate::source::Trace;
use policy::{Budget, Cells, Eviction, OnHit, Policy, Slot};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sim::report::Row;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;

/// Calls of the policy after which other threads get the interpreter's lock, if they wait for it. A
/// call takes some 0.1 to 1 µs, so that they, and a signal, wait for at most some milliseconds.
const TURNS: u32 = 4_096;

/// Class, or any callable, that makes a policy for a cache size.
#[derive(Clone, Default)]
struct Factory(Option<Arc<Py<PyAny>>>);

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a class of Python")
    }
}

/// Methods of a policy in Python. An entry is named by a number that each key has from its first
/// request on.
struct PythonPolicy {
    name: String,
    /// Calls since the lock was lent.
    turn: u32,
    on_hit: Option<Py<PyAny>>,
    on_insert: Py<PyAny>,
    on_remove: Option<Py<PyAny>>,
    evict: Py<PyAny>,
}

/// Ends the replay. The exception reaches the caller of the replay unchanged.
fn end(error: PyErr) -> ! {
    resume_unwind(Box::new(error))
}

fn of_instance(instance: &Bound<'_, PyAny>) -> PyResult<PythonPolicy> {
    let name = instance.get_type().name()?.to_string();
    let optional = |method: &str| -> PyResult<Option<Py<PyAny>>> {
        match instance.hasattr(method)? {
            true => Ok(Some(instance.getattr(method)?.unbind())),
            false => Ok(None),
        }
    };
    let required = |method: &str| {
        let missing = || {
            PyTypeError::new_err(format!(
                "policy {name}: it has no method {method}: expected on_insert and evict"
            ))
        };
        optional(method)?.ok_or_else(missing)
    };
    Ok(PythonPolicy {
        on_hit: optional("on_hit")?,
        on_insert: required("on_insert")?,
        on_remove: optional("on_remove")?,
        evict: required("evict")?,
        turn: 0,
        name,
    })
}

impl PythonPolicy {
    /// Calls `act` with the interpreter. An exception ends the replay.
    #[inline]
    fn run<R>(&mut self, act: impl FnOnce(Python<'_>, &Self) -> PyResult<R>) -> R {
        // The thread holds the lock already, so that this only reads a counter.
        let found = Python::attach(|py| {
            self.turn += 1;
            if self.turn == TURNS {
                self.turn = 0;
                py.detach(|| {});
            }
            act(py, self)
        });
        found.unwrap_or_else(|error| end(error))
    }

    /// Returns the entry that `evict` returned.
    fn victim(&self, victim: &Bound<'_, PyAny>, cells: &impl Cells<()>) -> PyResult<Slot> {
        let wrong = |reason: &str| {
            let shown = victim.repr()?.to_string();
            let name = &self.name;
            let text = format!("policy {name}: evict returned {shown}{reason}");
            Err(PyValueError::new_err(text))
        };
        let Ok(number) = victim.extract::<u32>() else {
            return wrong(": expected the number of an entry");
        };
        let slot = Slot(number);
        if number >= Slot::LIMIT || !cells.is_live(slot) {
            return wrong(", which is not in the cache");
        }
        Ok(slot)
    }
}

impl Policy for PythonPolicy {
    type Meta = ();
    type Config = Factory;
    const NAME: &'static str = "python";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, config: &Factory, _seed: u64) -> Self {
        let made = Python::attach(|py| {
            let factory = config.0.as_ref();
            let factory = factory.ok_or_else(|| PyRuntimeError::new_err("no class was given"))?;
            of_instance(factory.bind(py).call1((capacity,))?.as_any())
        });
        made.unwrap_or_else(|error| end(error))
    }

    fn insert(&mut self, cells: &mut impl Cells<()>, slot: Slot) {
        let weight = cells.weight(slot);
        self.run(|py, policy| policy.on_insert.bind(py).call1((slot.0, weight)).map(drop));
    }

    fn reorder(&mut self, _cells: &mut impl Cells<()>, slot: Slot) {
        self.run(|py, policy| match &policy.on_hit {
            Some(on_hit) => on_hit.bind(py).call1((slot.0,)).map(drop),
            None => Ok(()),
        });
    }

    fn moved(&mut self, _cells: &mut impl Cells<()>, _old: Slot, _new: Slot) {
        end(PyRuntimeError::new_err(
            "the simulator moved an entry, which is a defect",
        ));
    }

    fn remove(&mut self, _cells: &mut impl Cells<()>, slot: Slot) {
        self.run(|py, policy| match &policy.on_remove {
            Some(on_remove) => on_remove.bind(py).call1((slot.0,)).map(drop),
            None => Ok(()),
        });
    }

    fn evict(&mut self, cells: &mut impl Cells<()>, _budget: &mut Budget) -> Eviction {
        let victim = self.run(|py, policy| policy.victim(&policy.evict.bind(py).call0()?, cells));
        Eviction::Victim(victim)
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn check(&self, _cells: &impl Cells<()>) {}
}

/// Replays a trace through a policy written in Python at every size. Returns columns.
#[pyfunction]
pub fn replay_class<'py>(
    py: Python<'py>,
    trace: &Trace,
    name: String,
    factory: Py<PyAny>,
    sizes: Vec<String>,
    options: &Bound<'py, PyDict>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = trace.columns.clone();
    let sizes = parse_sizes(&sizes)?;
    let replaying = Replaying::of(options)?;
    let factory = Factory(Some(Arc::new(factory)));
    let rows = long_call::run(py, progress, move |control| {
        let rules = replaying.rules(&columns)?;
        let sizes = resolved(&columns, rules.unit, &sizes)?;
        control.begin((columns.len() * sizes.len()) as u64);
        let capacities = sizes.iter().map(|(_, size)| sim::scaled(*size, &columns));
        let capacities: Vec<u64> = capacities.collect();
        let done = &control.done;
        let found = Python::attach(|_| {
            sim::replay_policy::<PythonPolicy>(&columns, &rules, &factory, &capacities, done)
        })?;
        let rows = sizes.iter().zip(found);
        let rows = rows.map(|(size, found)| row(&columns, &name, rules.unit, size, found));
        Ok::<Vec<Row>, Failure>(rows.collect())
    })?;
    cells::columns(py, &table(&rows))
}
