//! The operator as a process of this machine.

use std::{fs, path::Path, process::Command, time::Duration};

use lockstep_tests_support::{
    http::call, ports::free_port, process::Process, recording::program, time::wait_until,
};

/// A running operator; killed when dropped.
#[derive(Debug)]
pub struct Operator {
    /// The process.
    pub process: Process,
    address: String,
}

impl Operator {
    /// Starts `LOCKSTEP_OPERATOR`, or the one of this build, with `more` arguments.
    pub fn start(name: &str, kubeconfig: &Path, folder: &Path, more: &[&str]) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let program =
            std::env::var_os("LOCKSTEP_OPERATOR").map_or_else(|| program("lockstep-operator"), Into::into);
        let mut command = Command::new(program);
        command
            .args(["run", "--sidecar-image", "localhost/lockstep-sidecar:test"])
            .args(["--identity", name, "--listen", &address])
            .args(more)
            .env("KUBECONFIG", kubeconfig)
            // As the chart does.
            .env("MALLOC_ARENA_MAX", "1");
        let process = Process::spawn(name, &mut command, folder.join("log").join(format!("{name}.out")));
        let mut operator = Self { process, address };
        wait_until("the operator lives", Duration::from_secs(30), || {
            let running = operator.process.is_running();
            assert!(running, "{name} ended: {}", operator.process.output());
            operator.get("/live").0 == 200
        });
        operator
    }

    /// Status and body of one of its paths; 0 when it does not answer.
    pub fn get(&self, path: &str) -> (u16, String) {
        let answer = call(&self.address, "GET", path, b"");
        answer.map_or((0, String::new()), |(status, body)| {
            (status, String::from_utf8_lossy(&body).into_owned())
        })
    }

    /// Its resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        // The kernel writes kB and means KiB.
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}
