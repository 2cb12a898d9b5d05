//! Draw and closed form against each other, on networks that need no file.

use onionlab_directory::synth::{Model, Options, embedded, synth};
use onionlab_directory::{Consensus, Flag, Flavour, Size};
use onionlab_quantities::Seed;
use onionlab_shared_links::{Answer, Blend, Filter, Method, Question, SharedLinksError, TrafficClass, answer, answer_while};
use proptest::prelude::*;

fn both(network: &Consensus, question: &Question, repeat: u64) -> (Answer, Answer) {
    let drawn = answer(network, question, Method::Draw, repeat, Seed(9)).unwrap();
    let expected = answer(network, question, Method::Expectation, 1, Seed(9)).unwrap();
    (drawn, expected)
}

/// `what` must be closer than five standard errors of the mean of the draws.
fn close(what: &str, drawn: f64, expected: f64, standard_error: f64) {
    let apart = (drawn - expected).abs() / standard_error;
    println!("{what}: drawn {drawn:.4}, expected {expected:.4}, {apart:.1} standard errors apart");
    assert!(apart < 5.0, "{what}: {drawn} {expected} +/- {standard_error}");
}

/// Exact parts: share, links, links with n circuits, for every way of asking.
#[test]
fn draw_and_formula_agree() {
    let network = synth(&Model::built_in(), &Options { size: Size::Relays(400), ..Options::default() }).unwrap();
    let n = 6_000;
    let everything = |question: Question| [question.clone(), question.undirected()];
    let mut questions = Vec::new();
    questions.extend(everything(Question::external(n)));
    questions.extend(everything(Question::internal(n)));
    questions.extend(everything(Question { per_client: 5, ..Question::external(n) }));
    questions.extend(everything(Question { per_client: 50, ..Question::internal(n) }));
    let repeat = 200;
    for question in questions {
        let (drawn, expected) = both(&network, &question, repeat);
        let deviation = drawn.stddev_percent.unwrap();
        let name = format!("{:?} directed {} k {}", drawn.kind, question.directed, question.per_client);
        close(&name, drawn.shared_percent, expected.shared_percent, deviation / (repeat as f64).sqrt());
        // The number of links with n circuits varies no more than a Poisson number of that mean.
        for (i, (&a, &b)) in drawn.circuits_per_link.iter().zip(&expected.circuits_per_link).enumerate().take(6) {
            close(
                &format!("  links with {}", i + 1),
                a,
                b,
                (b / repeat as f64).sqrt().max(0.02) * if question.per_client > 1 { 2.0 } else { 1.0 },
            );
        }
        let parts: f64 = expected.circuits_per_link.iter().zip(1..).map(|(&links, n)| links * f64::from(n)).sum();
        assert!((parts / (2 * n) as f64 - 1.0).abs() < 1e-6, "{parts}");
    }
}

/// Approximated parts, and how good they are: stated here because the documentation refers to it.
#[test]
fn approximations_are_as_good_as_stated() {
    let network = synth(&Model::built_in(), &Options { size: Size::Relays(400), ..Options::default() }).unwrap();
    for (question, deviation_within, circuits_within) in [
        (Question::external(6_000), 0.15, 0.01),
        (Question::external(6_000).undirected(), 0.15, 0.01),
        (Question::internal(6_000).undirected(), 0.15, 0.01),
        (Question { per_client: 10, ..Question::external(6_000) }, 0.6, 0.02),
    ] {
        let (drawn, expected) = both(&network, &question, 400);
        let (a, b) = (drawn.stddev_percent.unwrap(), expected.stddev_percent.unwrap());
        println!("{:?} k {}: deviation drawn {a:.4}, approximated {b:.4}", drawn.kind, question.per_client);
        // 400 draws give the deviation itself within 3.5 % (one standard error).
        assert!((a / b - 1.0).abs() < deviation_within + 0.1, "{a} {b}");
        let (a, b) = (drawn.shared_circuits, expected.shared_circuits);
        println!("   one {:.1} {:.1}, two {:.1} {:.1}", a.one, b.one, a.two, b.two);
        assert!((a.one / b.one - 1.0).abs() < circuits_within, "{a:?} {b:?}");
        assert!((a.two / b.two - 1.0).abs() < 3.0 * circuits_within, "{a:?} {b:?}");
    }
}

/// Several guards per client: fewer circuits than guards and more, where little is shared, so that most of it is between circuits of one client, and much.
#[test]
fn guard_sets_are_drawn_as_expected() {
    let network = synth(&Model::built_in(), &Options { size: Size::Relays(400), ..Options::default() }).unwrap();
    for (circuits, per_client, guards_per_client, repeat) in
        [(60, 2, 2, 8_000), (60, 3, 3, 8_000), (60, 9, 3, 8_000), (60, 12, 20, 8_000), (6_000, 30, 3, 200)]
    {
        let asked = Question { per_client, guards_per_client, ..Question::external(circuits) };
        for question in [asked.clone(), asked.undirected()] {
            let (drawn, expected) = both(&network, &question, repeat);
            let name = format!("{circuits} circuits, k {per_client}, {guards_per_client} guards, directed {}", question.directed);
            let error = drawn.stddev_percent.unwrap() / (repeat as f64).sqrt();
            // The mean of quotients is less than the quotient of means by a part of the variance of the links, which is small beside one draw's deviation.
            close(&name, drawn.shared_percent, expected.shared_percent, error);
            let error = (drawn.shared_links * 2.0 / repeat as f64).sqrt();
            close("  shared links", drawn.shared_links, expected.shared_links, error);
            // Every part is on a shared link or alone on its link.
            let parts = expected.shared_circuits.one + 2.0 * expected.shared_circuits.two;
            let shared_parts = 2.0 * circuits as f64 - expected.circuits_per_link[0];
            println!("  parts on shared links {parts:.4}, {shared_parts:.4}");
            assert!((parts / shared_parts - 1.0).abs() < if question.directed { 0.001 } else { 0.1 }, "{parts} {shared_parts}");
        }
    }
}

/// All of Tor, and an unflavoured network with traffic classes.
#[test]
fn the_whole_network() {
    for question in [Question::external(96_876), Question::internal(96_876).undirected()] {
        let (drawn, expected) = both(&embedded(), &question, 8);
        close("whole network", drawn.shared_percent, expected.shared_percent, expected.stddev_percent.unwrap() / 8_f64.sqrt());
        assert!(drawn.seed == Some(9) && expected.seed.is_none());
    }
    let options = Options { size: Size::Relays(2000), flavour: Flavour::Unflavoured, ..Options::default() };
    let network = synth(&Model::built_in(), &options).unwrap();
    for blend in [Blend::of_class(TrafficClass::OtherFileSharing), Blend::everything()] {
        let (drawn, expected) = both(&network, &Question { blend, ..Question::external(20_000) }, 20);
        close("blend", drawn.shared_percent, expected.shared_percent, drawn.stddev_percent.unwrap() / 20_f64.sqrt());
    }
}

#[test]
fn the_same_seed_gives_the_same_draw() {
    let network = synth(&Model::built_in(), &Options { size: Size::Relays(100), ..Options::default() }).unwrap();
    let draw = |seed| {
        let mut drawn = answer(&network, &Question::external(5_000), Method::Draw, 2, Seed(seed)).unwrap();
        drawn.seconds = 0.0;
        drawn.seed = None;
        drawn
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn an_answer_is_written_and_read_as_json() {
    let network = synth(&Model::built_in(), &Options { size: Size::Relays(50), ..Options::default() }).unwrap();
    let drawn = answer(&network, &Question::external(500), Method::Draw, 1, Seed(1)).unwrap();
    let text = serde_json::to_string(&drawn).unwrap();
    for key in [
        "consensus",
        "relays",
        "guards",
        "middles",
        "exits",
        "circuits",
        "kind",
        "directed",
        "method",
        "links",
        "shared_links",
        "shared_percent",
        "stddev_percent",
        "circuits_per_link",
        "shared_circuits",
        "seed",
        "seconds",
    ] {
        assert!(text.contains(&format!("\"{key}\":")), "{key} in {text}");
    }
    let back: Answer = serde_json::from_str(&text).unwrap();
    assert_eq!(back.circuits_per_link, drawn.circuits_per_link);
}

#[test]
fn impossible_questions_say_so() {
    let network = synth(&Model::built_in(), &Options { size: Size::Relays(50), ..Options::default() }).unwrap();
    let ask = |network: &Consensus, question: &Question| answer(network, question, Method::Expectation, 1, Seed(1)).unwrap_err();
    assert!(matches!(ask(&network, &Question::external(0)), SharedLinksError::NoCircuits { .. }));
    let mut question = Question::external(10);
    question.exclusions.same_relay = true;
    assert!(ask(&network, &question).to_string().contains("use the draw"));
    question.exclusions.families = Some(vec![1; 3]);
    let error = answer(&network, &question, Method::Draw, 1, Seed(1)).unwrap_err().to_string();
    assert!(error.contains("3 family numbers for 50 relays"), "{error}");
    question.exclusions.families = Some(vec![1; 50]);
    assert!(matches!(answer(&network, &question, Method::Draw, 1, Seed(1)), Err(SharedLinksError::NoCircuit { .. })));
    let error = answer(&network, &Question::external(10), Method::Draw, 1_000_001, Seed(1)).unwrap_err().to_string();
    assert!(error.contains("at most 1000000"), "{error}");
    let asked = std::cell::Cell::new(0);
    let twice = || asked.replace(asked.get() + 1) < 2;
    let stopped = answer_while(&network, &Question::external(10), Method::Draw, 10, Seed(1), &twice).unwrap_err();
    assert!(matches!(stopped, SharedLinksError::Stopped) && asked.get() == 3);
    // Within a draw too: once a repetition begins, then while circuits are drawn and while they are counted.
    let many = Question::external(300_000);
    for enough in 1..6 {
        asked.set(0);
        let enough_times = || asked.replace(asked.get() + 1) < enough;
        let stopped = answer_while(&network, &many, Method::Draw, 1, Seed(1), &enough_times).unwrap_err();
        assert!(matches!(stopped, SharedLinksError::Stopped) && asked.get() == enough + 1, "{enough}");
    }
    let mut without_exits = network.clone();
    without_exits.relays.retain(|relay| !relay.flags.contains(Flag::Exit));
    let error = ask(&without_exits, &Question::external(10)).to_string();
    assert!(error.contains("exit position (flags needed: Exit; refused: BadExit)"), "{error}");
    assert!(answer(&without_exits, &Question::internal(10), Method::Expectation, 1, Seed(1)).is_ok());
    let mut refusing = Question::external(10);
    refusing.filters.exit = Filter { refused: [Flag::Running].into_iter().collect(), ..Filter::default() };
    let mut all_run = network.clone();
    all_run.relays.iter_mut().for_each(|relay| relay.flags.insert(Flag::Running));
    let error = ask(&all_run, &refusing).to_string();
    assert!(error.contains("exit position (flags refused: Running)"), "{error}");
}

/// One circuit shares nothing, and not less.
#[test]
fn nothing_shared_is_nothing() {
    for relays in [20, 400, 6_000] {
        let network = synth(&Model::built_in(), &Options { size: Size::Relays(relays), ..Options::default() }).unwrap();
        for question in [Question::external(1), Question::internal(1), Question::external(2)] {
            for question in [question.clone(), question.undirected()] {
                let answer = answer(&network, &question, Method::Expectation, 1, Seed(1)).unwrap();
                assert!(answer.shared_links >= 0.0 && answer.shared_percent >= 0.0, "{answer:?}");
                assert!(answer.shared_circuits.one >= 0.0 && answer.shared_circuits.two >= 0.0, "{answer:?}");
                assert!(answer.circuits_per_link.iter().all(|&links| links >= 0.0), "{answer:?}");
            }
        }
    }
}

/// Few clients with many circuits each: between one client's circuits on a link and another's lie numbers that hardly occur, and what lies beyond them counts.
#[test]
fn valleys_between_clients_do_not_end_the_tail() {
    let network = synth(
        &Model::built_in(),
        &Options { size: Size::Relays(5), seed: Seed(4_006_658_208_403_762_784), ..Options::default() },
    )
    .unwrap();
    // Nine clients and one with nine circuits; ten clients.
    for circuits in [216, 230] {
        let question = Question { blend: Blend::internal(), directed: false, per_client: 23, ..Question::external(circuits) };
        let answer = answer(&network, &question, Method::Expectation, 1, Seed(1)).unwrap();
        let parts: f64 = answer.circuits_per_link.iter().zip(1..).map(|(&links, n)| links * f64::from(n)).sum();
        assert!((parts / (2 * circuits) as f64 - 1.0).abs() < 1e-3, "{parts} of {}", 2 * circuits);
    }
}

/// A client with one circuit uses one of its guards, however many it has: as with one guard.
#[test]
fn guards_that_no_circuit_uses_do_not_count() {
    let network = synth(&Model::built_in(), &Options { size: Size::Relays(5), ..Options::default() }).unwrap();
    let ask = |guards_per_client, method| {
        let question = Question { guards_per_client, ..Question::external(30) };
        answer(&network, &question, method, 2_000, Seed(1)).unwrap()
    };
    let [one, three] = [1, 3].map(|guards| ask(guards, Method::Expectation));
    assert_eq!((one.links, one.shared_links), (three.links, three.shared_links));
    let drawn = ask(3, Method::Draw);
    assert!((drawn.links / three.links - 1.0).abs() < 0.01, "{} drawn, {} expected", drawn.links, three.links);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the question: numbers that hang together.
    #[test]
    fn answers_are_consistent(relays in 5..80_usize, circuits in 1..3_000_u64, k in 1..40_u64, guards in 1..6_u64, directed: bool, internal: bool, seed: u64) {
        let network = synth(&Model::built_in(), &Options { size: Size::Relays(relays), seed: Seed(seed), ..Options::default() }).unwrap();
        let blend = if internal { Blend::internal() } else { Blend::external() };
        let question = Question { blend, directed, per_client: k.min(circuits), guards_per_client: guards, ..Question::external(circuits) };
        for method in [Method::Draw, Method::Expectation] {
            let answer = answer(&network, &question, method, 1, Seed(seed)).unwrap();
            prop_assert!(answer.shared_links <= answer.links && answer.links <= 2.0 * circuits as f64 + 1e-6);
            let parts: f64 = answer.circuits_per_link.iter().zip(1..).map(|(&links, n)| links * f64::from(n)).sum();
            prop_assert!((parts / (2 * circuits) as f64 - 1.0).abs() < 1e-3, "{parts} of {}", 2 * circuits);
            let links: f64 = answer.circuits_per_link.iter().sum();
            prop_assert!((links - answer.links).abs() < 1e-3 * answer.links);
            prop_assert!(answer.shared_circuits.one + answer.shared_circuits.two <= circuits as f64 * (1.0 + 1e-9));
        }
    }
}
