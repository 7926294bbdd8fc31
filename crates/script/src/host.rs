//! The interface between a running script and the server.

use wire::{Args, Output, Protocol};

/// Services that the server provides to a running script.
pub trait Host {
    /// Runs a command and appends exactly one reply in this protocol. If the script must end,
    /// returns the reason.
    fn call(
        &mut self,
        args: Args<'_>,
        protocol: Protocol,
        out: &mut Output,
    ) -> Option<&'static str>;

    /// Whether the user may run this command with these arguments.
    ///
    /// # Errors
    /// The command does not exist or cannot have this number of arguments.
    fn may_call(&mut self, args: Args<'_>) -> Result<bool, &'static str>;

    /// Writes a line to the log. The level is 0 (debug) to 3 (warning).
    fn log(&mut self, level: u8, text: &[u8]);

    /// Returns the processor time used, in seconds, from any starting point.
    fn cpu_seconds(&mut self) -> f64;

    /// Called after every `Engine::TICK_INSTRUCTIONS` instructions, and after a comparable amount
    /// of work in the libraries. If the script must end, returns the reason.
    fn tick(&mut self) -> Option<&'static str>;
}
