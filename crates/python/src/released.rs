//! Work without the interpreter's lock: where a panic and Ctrl-C go.

use crate::errors;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Does the work while others have the interpreter. A panic is a defect, told as one, and not one more exception that nobody catches.
pub fn released<T: Send>(py: Python<'_>, work: impl Send + FnOnce() -> PyResult<T>) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(defect(&*panic))))
}

/// What a panic says.
pub fn defect(panic: &(dyn Any + Send)) -> PyErr {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    errors::defect(message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message"))
}

/// Python's signal handlers within long work (Ctrl-C): what one of them has raised is kept until the work has stopped.
#[derive(Default)]
pub struct Interrupt(Mutex<Option<PyErr>>);

impl Interrupt {
    /// Gives the handlers their turn; false once one of them has raised.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is of one lifetime, the closure of every one")]
    pub fn goes_on(&self) -> bool {
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => true,
            Err(error) => {
                self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                false
            }
        }
    }

    /// What was raised, else the outcome.
    pub fn or<T>(self, outcome: PyResult<T>) -> PyResult<T> {
        self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(outcome, Err)
    }
}
