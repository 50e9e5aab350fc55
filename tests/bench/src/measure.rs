//! What the kernel says of a process: CPU time and peak resident memory.

use std::{fs, time::Duration};

use crate::Result;

/// The kernel counts CPU time in ticks of a hundredth of a second (`USER_HZ` on Linux).
const TICK: Duration = Duration::from_millis(10);

/// CPU time that a process and its threads have used so far.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(") ").ok_or("unreadable stat")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    // utime and stime are fields 14 and 15 of proc(5); two stand before the parenthesis.
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u32>().ok()).unwrap_or(0);
    Ok(TICK * (ticks(11) + ticks(12)))
}

/// Peak resident memory in KiB.
pub(crate) fn peak_kib(pid: u32) -> Result<u64> {
    status(pid, "VmHWM:")
}

/// Resident memory in KiB now.
pub(crate) fn resident_kib(pid: u32) -> Result<u64> {
    status(pid, "VmRSS:")
}

fn status(pid: u32, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line in status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
