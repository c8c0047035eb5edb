// SPDX-License-Identifier: Apache-2.0
//! A very small HTTP server for `/metrics`: one thread, at most 16 connections, each with a deadline, and when a
//! new one comes while all are taken the oldest goes. A slow client costs a slot and never the thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use super::text::CONTENT_TYPE;

const CONNECTIONS: usize = 16;
const DEADLINE: Duration = Duration::from_secs(5);
/// A request of Prometheus has some 400 bytes.
const REQUEST_BYTES: usize = 8192;

/// The server.
pub struct Server {
    listener: TcpListener,
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    since: Instant,
    request: Vec<u8>,
    /// What is to be sent, and how much of it was.
    response: Option<(Vec<u8>, usize)>,
}

enum Progress {
    Waits,
    Ended,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// The address is taken, or not of this host.
    pub fn listen(address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("metrics.listen: {address}"))?;
        listener.set_nonblocking(true).context("metrics.listen")?;
        Ok(Server { listener, connections: Vec::with_capacity(CONNECTIONS) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel does not know.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves whatever can be served within this time. `page` makes the text of `/metrics`.
    pub fn serve(&mut self, within: Duration, page: &mut dyn FnMut() -> String) {
        let end = Instant::now() + within;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(left);
            self.accept();
            self.connections.retain_mut(|connection| {
                connection.since.elapsed() < DEADLINE && matches!(connection.advance(page), Progress::Waits)
            });
        }
    }

    fn wait(&self, time: Duration) {
        let timeout = Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() };
        let mut polled = Vec::with_capacity(CONNECTIONS + 1);
        polled.push(PollFd::new(&self.listener, PollFlags::IN));
        for connection in &self.connections {
            let flags = if connection.response.is_some() { PollFlags::OUT } else { PollFlags::IN };
            polled.push(PollFd::new(&connection.stream, flags));
        }
        // An interrupted wait is a short wait.
        let _ = poll(&mut polled, Some(&timeout));
    }

    fn accept(&mut self) {
        // A bounded number, so that a flood of connections cannot keep us here.
        for _ in 0..CONNECTIONS {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.connections.len() >= CONNECTIONS {
                self.connections.remove(0);
            }
            self.connections.push(Connection { stream, since: Instant::now(), request: Vec::new(), response: None });
        }
    }
}

impl Connection {
    fn advance(&mut self, page: &mut dyn FnMut() -> String) -> Progress {
        if self.response.is_none() {
            if let Progress::Ended = self.receive(page) {
                return Progress::Ended;
            }
        }
        self.send()
    }

    fn receive(&mut self, page: &mut dyn FnMut() -> String) -> Progress {
        let mut chunk = [0; 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Progress::Ended,
                Ok(length) => self.request.extend_from_slice(chunk.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Waits,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Progress::Ended,
            }
            self.response = answer(&self.request, page).map(|bytes| (bytes, 0));
            if self.response.is_some() {
                return Progress::Waits;
            }
        }
    }

    fn send(&mut self) -> Progress {
        let Some((bytes, sent)) = &mut self.response else { return Progress::Waits };
        while let Some(rest) = bytes.get(*sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Progress::Ended,
                Ok(length) => *sent += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Waits,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Progress::Ended,
            }
        }
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        Progress::Ended
    }
}

/// The response, once the request is complete (or known to be wrong).
fn answer(request: &[u8], page: &mut dyn FnMut() -> String) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Partial) if request.len() < REQUEST_BYTES => None,
        Ok(httparse::Status::Partial) => {
            Some(response("431 Request Header Fields Too Large", "text/plain", "too long\n", true))
        }
        Err(_) => Some(response("400 Bad Request", "text/plain", "not HTTP\n", true)),
        Ok(httparse::Status::Complete(_)) => {
            let body = parsed.method != Some("HEAD");
            let path = parsed.path.unwrap_or_default();
            let path = path.split_once('?').map_or(path, |(path, _)| path);
            Some(match (parsed.method, path) {
                (Some("GET" | "HEAD"), "/metrics") => response("200 OK", CONTENT_TYPE, &page(), body),
                (Some("GET" | "HEAD"), "/") => response("200 OK", "text/html", LANDING, body),
                (Some("GET" | "HEAD"), _) => response("404 Not Found", "text/plain", "see /metrics\n", body),
                _ => response("405 Method Not Allowed", "text/plain", "only GET\n", body),
            })
        }
    }
}

const LANDING: &str = concat!(
    "<html><head><title>beer-guard</title></head><body><h1>beer-guard ",
    env!("CARGO_PKG_VERSION"),
    "</h1><p><a href=\"/metrics\">Metrics</a></p></body></html>\n"
);

fn response(status: &str, content_type: &str, text: &str, body: bool) -> Vec<u8> {
    let length = text.len();
    let text = if body { text } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving() -> (SocketAddr, std::thread::JoinHandle<()>) {
        let mut server = Server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = server.address().unwrap();
        let thread = std::thread::spawn(move || {
            server.serve(Duration::from_secs(2), &mut || "metric 1\n".to_owned());
        });
        (address, thread)
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn answers_what_it_knows() {
        let (address, thread) = serving();
        let text = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nmetric 1\n"), "{text}");
        assert!(ask(address, "HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").contains("beer-guard"));
        assert!(ask(address, "GET /secret HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(address, "\u{1}\u{2}\r\n\r\n").starts_with("HTTP/1.1 400"));
        assert!(ask(address, &format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000))).starts_with("HTTP/1.1 431"));
        thread.join().unwrap();
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn whatever_is_asked_is_answered_or_waited_for(
            pieces in proptest::collection::vec(proptest::sample::select(vec![
                "GET", "HEAD", " ", "/metrics", "/", "?", "HTTP/1.1", "\r\n", "\n", "a: b", ":", "\u{0}", "é", "%00", "..",
            ]), 0..40),
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..100),
        ) {
            for request in [pieces.concat().as_bytes(), &bytes] {
                let answered = answer(request, &mut || "metric 1\n".to_owned());
                assert!(answered.is_none_or(|text| text.starts_with(b"HTTP/1.1 ")));
            }
        }
    }

    #[test]
    fn silent_clients_do_not_keep_others_waiting() {
        let (address, thread) = serving();
        let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
        let begun = Instant::now();
        assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("metric 1\n"));
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        drop(silent);
        thread.join().unwrap();
    }
}
