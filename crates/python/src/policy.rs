//! Circuitmux policies that are classes in Python: the interpreter's lock is taken for each call.

use onionlab_circuitmux::{CircuitmuxPolicy, CustomPolicy, Slot, Trouble};
use onionlab_lab::scenario::own_policy::ParameterValue;
use onionlab_lab::scenario::resolved::FileRef;
use onionlab_lab::world::Interpreter;
use onionlab_quantities::SimTime;
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTraceback};
use pyo3::{IntoPyObjectExt, intern};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::sync::{Arc, Mutex};

/// Makes policies of classes, for one run.
#[derive(Default)]
pub struct Policies {
    /// What is to end more than the run, such as Ctrl-C while a policy was called.
    stop: Arc<Mutex<Option<PyErr>>>,
}

impl Policies {
    /// What is to be raised in place of the run's own error.
    pub fn stopped(&self) -> Option<PyErr> {
        self.stop.lock().ok()?.take()
    }
}

impl Interpreter for Policies {
    fn policy(
        &self,
        file: &FileRef,
        source: &str,
        class: &str,
        parameters: &BTreeMap<String, ParameterValue>,
    ) -> Result<CustomPolicy, String> {
        let made = Python::attach(|py| {
            let failed = |error: PyErr| format!("cannot be imported: {}", sentence(py, &error, &file.path));
            let module = import(py, file, source).map_err(failed)?;
            let found = module.getattr(class).map_err(|_| format!("has no class {class}"))?;
            for method in ["pick", "compare"] {
                if !found.hasattr(method).unwrap_or(false) {
                    return Err(format!("has a class {class} without the method `{method}`"));
                }
            }
            let has = |method: &str| found.hasattr(method).unwrap_or(false);
            let class = Class {
                path: file.path.clone(),
                parameters: arguments(py, parameters).map_err(failed)?.unbind(),
                attach: has("attach"),
                detach: has("detach"),
                active: has("notify_active"),
                inactive: has("notify_inactive"),
                set_cells: has("notify_set_cells"),
                sent: has("notify_sent"),
                maker: found.unbind(),
                stop: self.stop.clone(),
            };
            Ok(Arc::new(class))
        })?;
        Ok(CustomPolicy::fallible(class, move |trouble| PythonPolicy::make(&made, trouble)))
    }
}

/// Executes the file as a module of its own, anew for each run, so that nothing is left in it from another one.
fn import<'py>(py: Python<'py>, file: &FileRef, source: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULES: AtomicU64 = AtomicU64::new(0);
    let name = format!("onionlab_policy_{}_{}", file.digest, MODULES.fetch_add(1, Atomic::Relaxed));
    let module = py.import("types")?.getattr("ModuleType")?.call1((&name,))?;
    module.setattr("__file__", file.location.to_string_lossy())?;
    let builtins = py.import("builtins")?;
    let code = builtins.getattr("compile")?.call1((source, &file.path, "exec"))?;
    // Dataclasses look their module up while they are made.
    let modules = py.import("sys")?.getattr("modules")?;
    modules.set_item(&name, &module)?;
    let done = builtins.getattr("exec")?.call1((code, module.getattr("__dict__")?));
    modules.del_item(&name)?;
    done.map(|_| module)
}

/// The parameters as keyword arguments.
fn arguments<'py>(py: Python<'py>, parameters: &BTreeMap<String, ParameterValue>) -> PyResult<Bound<'py, PyDict>> {
    let arguments = PyDict::new(py);
    for (name, value) in parameters {
        let value = match value {
            ParameterValue::Bool(value) => value.into_py_any(py)?,
            ParameterValue::Whole(value) => value.into_py_any(py)?,
            ParameterValue::Number(value) => value.into_py_any(py)?,
            ParameterValue::Text(value) => value.into_py_any(py)?,
        };
        arguments.set_item(name.replace('-', "_"), value)?;
    }
    Ok(arguments)
}

/// What an exception says, on one line, with its last place in the policy's file.
fn sentence(py: Python<'_>, error: &PyErr, path: &str) -> String {
    let name = error.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    let text = error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string());
    let mut line = None;
    let mut trace: Option<Bound<'_, PyTraceback>> = error.traceback(py);
    while let Some(at) = trace {
        let file: PyResult<String> =
            at.getattr("tb_frame").and_then(|frame| frame.getattr("f_code")?.getattr("co_filename")?.extract());
        if file.is_ok_and(|file| file == path) {
            line = at.getattr("tb_lineno").and_then(|line| line.extract::<u32>()).ok();
        }
        trace = at.getattr("tb_next").ok().and_then(|next| next.cast_into().ok());
    }
    let line = line.map_or_else(String::new, |line| format!(" (line {line})"));
    let text: String = text.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.is_empty() { format!("{name}{line}") } else { format!("{name}: {text}{line}") }
}

/// A class, and which of the calls that it may leave out it has.
struct Class {
    path: String,
    maker: Py<PyAny>,
    parameters: Py<PyDict>,
    attach: bool,
    detach: bool,
    active: bool,
    inactive: bool,
    set_cells: bool,
    sent: bool,
    stop: Arc<Mutex<Option<PyErr>>>,
}

/// The policy of one mux.
struct PythonPolicy {
    class: Arc<Class>,
    object: Py<PyAny>,
    /// A call raised an exception: the object is not called any more.
    failed: Cell<bool>,
    now: SimTime,
    trouble: Trouble,
}

impl PythonPolicy {
    fn make(class: &Arc<Class>, trouble: &Trouble) -> Result<Self, String> {
        Python::attach(|py| {
            let made = class.maker.bind(py).call((), Some(class.parameters.bind(py)));
            let object = made.map_err(|error| sentence(py, &error, &class.path))?.unbind();
            Ok(Self { class: class.clone(), object, failed: Cell::new(false), now: SimTime::ZERO, trouble: trouble.clone() })
        })
    }

    #[cold]
    fn fails(&self, py: Python<'_>, call: &str, error: PyErr) {
        self.failed.set(true);
        self.trouble.report(|| {
            let (path, now) = (&self.class.path, self.now.as_secs_f64());
            format!("of {path} failed in `{call}` at {now:.6} s of simulated time: {}", sentence(py, &error, path))
        });
        // Ctrl-C ends the experiment. That a policy exits is its mistake, as any other exception.
        if error.is_instance_of::<PyKeyboardInterrupt>(py)
            && let Ok(mut stop) = self.class.stop.lock()
        {
            stop.get_or_insert(error);
        }
    }

    /// Makes one call, unless the class does not have it, or one has failed before.
    fn notify(&self, has: bool, name: &str, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        if has && !self.failed.get() {
            Python::attach(|py| call(self.object.bind(py)).unwrap_or_else(|error| self.fails(py, name, error)));
        }
    }
}

impl CircuitmuxPolicy for PythonPolicy {
    fn attach(&mut self, Slot(circuit): Slot, now: SimTime, cells: u32) {
        self.now = now;
        self.notify(self.class.attach, "attach", |object| {
            object.call_method1(intern!(object.py(), "attach"), (circuit, now.as_nanos(), cells)).map(drop)
        });
    }

    fn detach(&mut self, Slot(circuit): Slot) {
        self.notify(self.class.detach, "detach", |object| {
            object.call_method1(intern!(object.py(), "detach"), (circuit,)).map(drop)
        });
    }

    fn notify_active(&mut self, Slot(circuit): Slot, now: SimTime) {
        self.now = now;
        self.notify(self.class.active, "notify_active", |object| {
            object.call_method1(intern!(object.py(), "notify_active"), (circuit, now.as_nanos())).map(drop)
        });
    }

    fn notify_inactive(&mut self, Slot(circuit): Slot, now: SimTime) {
        self.now = now;
        self.notify(self.class.inactive, "notify_inactive", |object| {
            object.call_method1(intern!(object.py(), "notify_inactive"), (circuit, now.as_nanos())).map(drop)
        });
    }

    fn notify_set_cells(&mut self, Slot(circuit): Slot, cells: u32, now: SimTime) {
        self.now = now;
        self.notify(self.class.set_cells, "notify_set_cells", |object| {
            object.call_method1(intern!(object.py(), "notify_set_cells"), (circuit, cells, now.as_nanos())).map(drop)
        });
    }

    fn notify_sent(&mut self, Slot(circuit): Slot, cells: u32, now: SimTime) {
        self.now = now;
        self.notify(self.class.sent, "notify_sent", |object| {
            object.call_method1(intern!(object.py(), "notify_sent"), (circuit, cells, now.as_nanos())).map(drop)
        });
    }

    fn pick(&mut self, now: SimTime) -> Option<Slot> {
        if self.failed.get() {
            return None;
        }
        self.now = now;
        Python::attach(|py| {
            let answer = self.object.bind(py).call_method1(intern!(py, "pick"), (now.as_nanos(),)).and_then(|picked| {
                picked.extract::<Option<u32>>().map_err(|_| {
                    PyTypeError::new_err(format!(
                        "it returned {}, which is neither the number of a circuit nor None",
                        short(&picked)
                    ))
                })
            });
            answer.unwrap_or_else(|error| {
                self.fails(py, "pick", error);
                None
            })
        })
        .map(Slot)
    }

    fn compare(&self, other: &Self) -> Ordering {
        if self.failed.get() || other.failed.get() {
            return Ordering::Equal;
        }
        Python::attach(|py| {
            let answer = self.object.bind(py).call_method1(intern!(py, "compare"), (&other.object,)).and_then(|order| {
                let number = if order.is_instance_of::<PyBool>() { None } else { order.extract::<f64>().ok() };
                number.and_then(|number| number.partial_cmp(&0.0)).ok_or_else(|| {
                    PyTypeError::new_err(format!(
                        "it returned {}, which is neither a negative number, zero, nor a positive one",
                        short(&order)
                    ))
                })
            });
            answer.unwrap_or_else(|error| {
                self.fails(py, "compare", error);
                Ordering::Equal
            })
        })
    }
}

/// What an object looks like, in a few characters.
fn short(object: &Bound<'_, PyAny>) -> String {
    let text = object.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
    text.chars().take(60).collect()
}
