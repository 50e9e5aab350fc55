use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use lockstep_history::{Event, Outcome};

use lockstep_tests_support::{
    app::{App, Options},
    behaviour::{Act, Rule},
    brokers::new_folder,
    ports::{free_block, free_port},
    process::{Process, Signal},
    proxy::{Direction, Proxy},
    recording::{RecordingApp, read_history},
    time::wait_until,
};

const LIMIT: Duration = Duration::from_secs(10);

fn post(address: &str, position: u64, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /s1 HTTP/1.1\r\nLockstep-Queue: t/b/0\r\nlockstep-position: {position}\r\nlockstep-attempt: 1\r\n\
         lockstep-lease-epoch: 7\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    stream
}

/// What comes until the connection closes or an answer without a body is whole.
fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0; 1];
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        bytes.push(byte[0]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn app(rules: Vec<Rule>, log: Option<&Path>) -> App {
    App::start(Options { log, rules, ..Options::default() }).unwrap()
}

#[test]
fn the_application_does_what_its_rules_say() {
    let rules = vec![
        Rule::body("late", Act::RetryAfter(503, 7)).times(1),
        Rule::body("bad", Act::Answer(400)),
        Rule::body("half", Act::Half),
        Rule::body("close", Act::Close),
        Rule::body("skip", Act::Verdict(422, "skip".to_owned())),
        Rule { position: Some(9), ..Rule::always(Act::Redirect("/there".to_owned())) },
    ];
    let app = app(rules, None);
    let ask = |position, body| answer(&mut post(app.address(), position, body));
    assert!(ask(0, "late").contains("503 -\r\nretry-after: 7"));
    assert!(ask(0, "late").starts_with("HTTP/1.1 200"));
    assert!(ask(0, "bad").starts_with("HTTP/1.1 400"));
    assert!(ask(0, "skip").contains("lockstep-verdict: skip"));
    assert!(ask(9, "x").contains("location: /there"));
    assert_eq!(ask(0, "close"), "");
    assert!(ask(0, "half").contains("content-length: 10"));
    let bodies: Vec<Vec<u8>> = app.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 7);
    assert_eq!(bodies[2], b"bad");
}

#[test]
fn the_application_records_before_it_answers() {
    let folder = new_folder("support");
    let log = folder.join("app.log");
    let app = app(vec![Rule::body("no", Act::Answer(500))], Some(&log));
    assert!(answer(&mut post(app.address(), 3, "no")).contains("500"));
    let history = read_history(&log);
    let [start, end] = history.events() else { panic!("{history}") };
    assert!(
        matches!(start, Event::Start { queue, position: 3, attempt: 1, consumer, epoch: Some(7), .. }
            if &**queue == "t/b/0" && &**consumer == "s1"),
        "{start}"
    );
    assert!(matches!(end, Event::End { outcome: Outcome::Answered(500), .. }), "{end}");
}

#[test]
fn a_peer_that_goes_away_is_recorded() {
    let folder = new_folder("support");
    let log = folder.join("app.log");
    let app = app(vec![Rule::always(Act::Never)], Some(&log));
    drop(post(app.address(), 0, "x"));
    wait_until("the broken request is recorded", LIMIT, || {
        matches!(read_history(&log).events().last(), Some(Event::End { outcome: Outcome::Broken, .. }))
    });
}

#[test]
fn rules_are_read_as_they_are_written() {
    for act in [
        Act::Answer(404),
        Act::RetryAfter(429, 2),
        Act::Verdict(500, "again".to_owned()),
        Act::Redirect("http://x/".to_owned()),
        Act::Never,
        Act::Close,
        Act::Half,
        Act::Huge(100),
        Act::Reset,
        Act::Garbage,
        Act::Crash,
    ] {
        let mut rule = Rule::body("poison", act).after(Duration::from_millis(3)).times(2);
        rule.position = Some(4);
        rule.path = Some("s1".to_owned());
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
    assert!("answer".parse::<Rule>().is_err());
    assert!("answer x".parse::<Rule>().is_err());
    assert!("sing -".parse::<Rule>().is_err());
    assert!("answer 200 colour=red".parse::<Rule>().is_err());
}

#[test]
fn a_killed_application_loses_nothing_that_it_answered() {
    let folder = new_folder("support");
    let mut app = RecordingApp::start(&folder, "app");
    app.set_rules(vec![Rule::body("slow", Act::Never)]);
    let address = format!("127.0.0.1:{}", app.port());
    for position in 0..20 {
        assert!(answer(&mut post(&address, position, "x")).contains("200"));
    }
    let _open = post(&address, 20, "slow");
    wait_until("the open request is recorded", LIMIT, || app.history().events().len() == 41);
    app.kill();
    assert_eq!(app.history().events().len(), 42);
    assert!(matches!(app.history().events().last(), Some(Event::End { outcome: Outcome::Broken, .. })));
    app.restart();
    let _open = post(&address, 21, "slow");
    wait_until("the rules hold after the restart", LIMIT, || app.history().events().len() == 43);
}

#[test]
fn the_rules_hold_from_the_first_request_of_a_restarted_application() {
    let folder = new_folder("support");
    let mut app = RecordingApp::start(&folder, "app");
    app.set_rules(vec![Rule::always(Act::Answer(500))]);
    let address = format!("127.0.0.1:{}", app.port());
    for position in 0..10 {
        app.kill();
        let first = thread::scope(|scope| {
            let first = scope.spawn(|| first_answer(&address, position, "x"));
            app.restart();
            first.join().unwrap()
        });
        assert!(first.contains("500"), "{first}");
    }
}

/// Posts until somebody answers.
fn first_answer(address: &str, position: u64, body: &str) -> String {
    let end = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < end, "nobody listens");
        if TcpStream::connect(address).is_ok() {
            return answer(&mut post(address, position, body));
        }
    }
}

#[test]
fn a_crash_ends_the_application() {
    let folder = new_folder("support");
    let mut app = RecordingApp::start(&folder, "app");
    app.set_rules(vec![Rule::body("poison", Act::Crash)]);
    let address = format!("127.0.0.1:{}", app.port());
    assert_eq!(answer(&mut post(&address, 0, "poison")), "");
    wait_until("it is gone", LIMIT, || !app.is_running());
    app.restart();
    assert!(matches!(
        app.history().events(),
        [Event::Start { .. }, Event::End { outcome: Outcome::Broken, .. }]
    ));
}

#[test]
fn a_restarted_application_may_crash_before_it_was_seen_listening() {
    let folder = new_folder("support");
    let mut app = RecordingApp::start(&folder, "app");
    app.set_rules(vec![Rule::body("poison", Act::Crash)]);
    let address = format!("127.0.0.1:{}", app.port());
    for position in 0..10 {
        app.kill();
        thread::scope(|scope| {
            let first = scope.spawn(|| first_answer(&address, position, "poison"));
            app.restart();
            assert_eq!(first.join().unwrap(), "");
        });
        wait_until("it is gone", LIMIT, || !app.is_running());
    }
}

/// A server that sends back what it gets.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
    address
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

#[test]
fn the_proxy_passes_everything_on_in_slices() {
    let proxy = Proxy::start(&echo(), 1);
    proxy.set_slices(Some(3));
    let mut stream = connect(&proxy);
    let sent: Vec<u8> = (0..=255).collect();
    stream.write_all(&sent).unwrap();
    let mut received = vec![0; sent.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(received, sent);
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn the_proxy_stalls_in_the_middle_and_goes_on() {
    let proxy = Proxy::start(&echo(), 1);
    proxy.stall_after(Direction::Down, 4);
    let mut stream = connect(&proxy);
    stream.write_all(b"12345678").unwrap();
    let mut part = [0; 4];
    stream.read_exact(&mut part).unwrap();
    assert_eq!(&part, b"1234");
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(stream.read(&mut part).is_err(), "the rest came through a stall");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    proxy.heal();
    stream.read_exact(&mut part).unwrap();
    assert_eq!(&part, b"5678");
}

#[test]
fn the_proxy_cuts_refuses_and_heals() {
    let proxy = Proxy::start(&echo(), 1);
    let mut stream = connect(&proxy);
    stream.write_all(b"1").unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
    proxy.cut(true);
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    assert_eq!(connect(&proxy).read(&mut [0; 1]).unwrap_or(0), 0);
    proxy.heal();
    let mut stream = connect(&proxy);
    stream.write_all(b"2").unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
}

#[test]
fn the_proxy_delays() {
    let proxy = Proxy::start(&echo(), 1);
    proxy.set_latency(Duration::from_millis(30));
    let mut stream = connect(&proxy);
    let start = Instant::now();
    stream.write_all(b"1").unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(60));
}

#[test]
fn processes_are_frozen_ended_and_killed() {
    let folder = new_folder("support");
    let start = || Process::spawn("cat", &mut Command::new("cat"), folder.join("cat.out"));
    let state = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
    };
    let mut cat = start();
    cat.signal(Signal::Stop);
    wait_until("it is frozen", LIMIT, || state(cat.pid()) == Some('T'));
    cat.signal(Signal::Cont);
    cat.signal(Signal::Term);
    assert!(!cat.wait(LIMIT).success());

    let mut cat = start();
    drop(cat.take_stdin());
    assert!(cat.wait(LIMIT).success());

    let cat = start();
    let pid = cat.pid();
    drop(cat);
    assert_eq!(state(pid), None);
}

#[test]
fn ports_are_free_and_differ() {
    let (first, second) = (free_port(), free_block(4));
    assert!(first < second || first >= second + 4);
    let _taken = TcpListener::bind(("127.0.0.1", first)).unwrap();
    assert_ne!(free_port(), first);
}
