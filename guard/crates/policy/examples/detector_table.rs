// SPDX-License-Identifier: Apache-2.0
//! Prints what the detector does, beside the calculation in the design: false alarms per million healthy requests, and
//! delays after a step. `cargo run --release -p policy --example detector_table [MILLIONS]`

use policy::detector::stated_false_alarms_per_million;
use policy::detector::trial::{objective, quantile, Health, Trial};
use policy::Level;

/// A row of the design, "likelihood of the whole latency": h, false per million, then p50 and p99 for 2x, 3x, 10x.
type Row = (f64, &'static str, [(u32, u32); 3]);
const DESIGN: [Row; 3] = [
    (8.0, "73", [(70, 146), (56, 88), (75, 110)]),
    (12.0, "2", [(90, 188), (67, 104), (86, 118)]),
    (16.0, "< 1", [(113, 218), (78, 126), (93, 130)]),
];

fn trial(health: Health, rate: f64, h: f64, floor_ms: u64) -> Trial {
    let mut trial = Trial::new(health, rate, &objective(h, 2.0 * h, floor_ms * 1_000_000), 1, 1);
    trial.run((60.0 * rate).max(20_000.0) as u64);
    trial
}

fn delays(trial: &Trial, level: Level) -> String {
    let cell = |factor| {
        let d = trial.delays(factor, level, 500);
        let beyond = |ms: f64| if ms > 10_000.0 { "never".into() } else { format!("{ms:.0}") };
        format!("{:>5} / {:<5}", beyond(quantile(&d, 0.5)), beyond(quantile(&d, 0.99)))
    };
    [2.0, 3.0, 10.0].map(cell).join(" | ")
}

fn main() {
    let millions: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(2);
    println!(
        "Log-normal, p50 8 ms, p99 17 ms, 300 requests/s, no floor, tick {} ms, or 10 ms with evidence; delays p50 / p99 in ms, weak level",
        policy::config::TICK_NS / 1_000_000
    );
    println!("  h | false/10^6 | 2x            | 3x            | 10x");
    for (h, false_alarms, cells) in DESIGN {
        let cells = cells.map(|(p50, p99)| format!("{p50:>5} / {p99:<5}"));
        println!(" {h:>2} | {false_alarms:>10} | {} | design", cells.join(" | "));
        let trial = trial(Health::LOG_NORMAL, 300.0, h, 0);
        let (weak, _) = trial.clone().run(millions * 1_000_000);
        let rate = weak as f64 / millions as f64;
        println!("    | {rate:>10.1} | {} | ours", delays(&trial, Level::Weak));
    }
    let shapes = [
        ("log-normal 300/s", Health::LOG_NORMAL, 300.0),
        ("log-normal 1000/s", Health::LOG_NORMAL, 1000.0),
        ("log-normal 10/s", Health::LOG_NORMAL, 10.0),
        ("heavy tail 300/s", Health::HEAVY_TAIL, 300.0),
        ("stalls 300/s", Health::STALLS, 300.0),
        ("queue 84/s", Health::QUEUE, 84.0),
        ("queue 60/s", Health::QUEUE, 60.0),
    ];
    println!("\nFalse alarms per 10^6, weak and (strong = twice the weak level); stated: at most");
    let levels = [4.0, 6.0, 8.0, 12.0];
    let stated = levels.map(|h| format!("h {h:>2}: {:>8.1}", stated_false_alarms_per_million(h)));
    println!("{:>18} floor     {}", "stated", stated.join("         "));
    for (name, health, rate) in shapes {
        for floor_ms in [0, 10] {
            let cells = levels.map(|h| {
                let (weak, strong) = trial(health, rate, h, floor_ms).run(millions * 1_000_000);
                let rate = |n: u64| n as f64 / millions as f64;
                format!("h {h:>2}: {:>8.1} ({:>4.1})", rate(weak), rate(strong))
            });
            println!("{name:>18} {floor_ms:>2} ms     {}", cells.join("  "));
        }
    }
    println!("\nDelays in ms, p50 / p99, h 12 and 24 as in the default configuration");
    println!("                                     | 2x            | 3x            | 10x");
    for (name, health, rate) in shapes {
        for floor_ms in [0, 10] {
            let trial = trial(health, rate, 12.0, floor_ms);
            for level in [Level::Weak, Level::Strong] {
                println!("{name:>18} {floor_ms:>2} ms {level:>10?}   | {}", delays(&trial, level));
            }
        }
    }
}
