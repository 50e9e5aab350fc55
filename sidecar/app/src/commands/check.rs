use lockstep_broker::{Clock, Finding, Severity};
use tokio::sync::watch;

use super::{Failure, block_on, random_name, say, secrets_folder, source::Source};
use crate::{
    args::CheckArgs,
    config::{Member, Origin},
    state::State,
};

/// Tells every mistake of the manifest, and with `--connect` everything that is wrong with the source.
pub(super) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let origin = Origin::of(args.manifest.file.as_deref());
    let loaded = origin.load().map_err(Failure::usage)?;
    for warning in &loaded.warnings {
        say(format!("warning: {warning}"));
    }
    let source = Source::of(&loaded.group)?;
    say("the manifest is valid");
    if !args.connect {
        return Ok(());
    }
    let secrets = secrets_folder(args.manifest.credentials_dir.as_deref());
    let client_id = format!("lockstep-check-{}", random_name(8)?);
    block_on(async {
        let member = Member {
            secrets: &secrets,
            state: &State::none(),
            client_id: &client_id,
            hint: watch::Sender::new(None).subscribe(),
            clock: Clock::new(),
        };
        report(&source.check(&loaded.group, &member).await)
    })
}

fn report(findings: &[Finding]) -> Result<(), Failure> {
    let mut errors = Vec::new();
    for Finding { severity, problem } in findings {
        let text = format!("({}): {problem}", problem.reason);
        match severity {
            Severity::Error => errors.push(format!("the source can't be used {text}")),
            Severity::Warning => say(format!("warning {text}")),
        }
    }
    if errors.is_empty() {
        say("the source can be used");
        return Ok(());
    }
    Err(Failure::failed(errors.join("\n")))
}
