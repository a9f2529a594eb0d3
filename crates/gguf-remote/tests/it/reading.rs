//! How many requests and bytes a read takes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gguf_io::ReadAt;
use gguf_remote::{HttpFile, Location, Url};

use crate::server::{Server, asked_after, client, file, pattern};

/// A model with a head of 7.9 MB, and data.
fn model() -> Vec<u8> {
    let mut head = gguf_format::Head::default();
    head.set("general.architecture", "llama");
    head.set("tokenizer.ggml.tokens", (0..330_000).map(|i| format!("token {i:06}")).collect::<Vec<_>>());
    head.set("tokenizer.ggml.scores", vec![0.0f32; 330_000]);
    head.tensors = (0..4u32)
        .map(|i| gguf_format::TensorInfo::new(format!("blk.{i}.x"), [1 << 20], gguf_format::GgmlType::F32))
        .collect();
    let data = pattern(4 << 20);
    gguf_io::Writer::write(Vec::new(), &head, [&data, &data, &data, &data]).unwrap()
}

#[test]
fn a_head_takes_one_request() {
    let bytes = model();
    let server = Server::of_file(bytes.clone());
    let (client, events) = client(&server.address);
    let location = Location::parse(&server.url("/model.gguf?key=secret")).unwrap().unwrap();
    let model = client.open_model(&location).unwrap();
    assert_eq!(model.path(), std::path::Path::new(&server.url("/model.gguf")));
    let head = model.gguf().head_bytes();
    assert!(head > 7_900_000);
    assert_eq!(server.n_requests(), 1);
    let received: u64 = events
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| event.strip_prefix("Received { bytes: ")?.strip_suffix(" }")?.parse::<u64>().ok())
        .sum();
    assert!(received < head + head / 20, "{received} of {head}");
    let tensor = model.tensor("blk.2.x").unwrap();
    let range = tensor.byte_range().unwrap();
    assert!(tensor.read().unwrap() == bytes[range.start as usize..range.end as usize]);
    assert_eq!(server.n_requests(), 2);
}

#[test]
fn shards_are_found_beside() {
    let shard = |i: u16| {
        let mut head = gguf_format::Head::default();
        head.set("general.architecture", "llama");
        head.set("split.no", i);
        head.set("split.count", 2u16);
        head.set("split.tensors.count", 2i32);
        head.tensors = vec![gguf_format::TensorInfo::new(format!("t{i}"), [2], gguf_format::GgmlType::F32)];
        gguf_io::Writer::write(Vec::new(), &head, [[i as u8; 8]]).unwrap()
    };
    let shards = [shard(0), shard(1)];
    let server = Server::start(move |_, request| match request.target.as_str() {
        "/a%20b-00001-of-00002.gguf?k" => file(request, &shards[0], "\"1\""),
        "/a%20b-00002-of-00002.gguf?k" => file(request, &shards[1], "\"2\""),
        _ => crate::server::Reply::new(404, ""),
    });
    let (client, _) = client(&server.address);
    let open = |name: &str| client.open_model(&Location::parse(&server.url(name)).unwrap().unwrap());
    let model = open("/a%20b-00002-of-00002.gguf?k").unwrap();
    assert_eq!(model.tensor("t1").unwrap().read().unwrap(), [1; 8]);
    assert_eq!(model.tensor("t0").unwrap().read().unwrap(), [0; 8]);
    let e = open("/a%20b-00003-of-00002.gguf?k").unwrap_err().to_string();
    assert!(e.contains("status 404"), "{e}");
}

#[test]
fn small_reads_share_requests() {
    let bytes = pattern(12 << 20);
    let server = Server::of_file(bytes.clone());
    let (client, _) = client(&server.address);
    let source = HttpFile::open(&client, &Url::parse(&server.url("/x")).unwrap()).unwrap();
    let mut read = vec![0; bytes.len()];
    for (i, piece) in read.chunks_mut(4096).enumerate() {
        source.read_exact_at(i as u64 * 4096, piece).unwrap();
    }
    assert!(read == bytes);
    assert!(server.n_requests() < 16, "{}", server.n_requests());
    // The first response was dropped; it had the start of the file.
    assert!(server.sent() < bytes.len() as u64 + (8 << 20));

    // Random reads fetch little, and a long one is divided.
    let (sent, n) = (server.sent(), server.n_requests());
    let mut piece = [0; 16];
    for at in [5 << 20, 1 << 20, 9 << 20] {
        source.read_exact_at(at, &mut piece).unwrap();
        assert!(piece == bytes[at as usize..][..16]);
    }
    assert!(server.sent() - sent <= 3 * (64 << 10) && server.n_requests() == n + 3);
    let end = source.read_exact_at(bytes.len() as u64 - 1, &mut piece).unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn long_reads_are_divided() {
    let bytes = pattern(40 << 20);
    let served = bytes.clone();
    let server = Server::start(move |_, request| {
        std::thread::sleep(Duration::from_millis(30));
        file(request, &served, "\"1\"")
    });
    let (client, _) = client(&server.address);
    let source = HttpFile::open(&client, &Url::parse(&server.url("/x")).unwrap()).unwrap();
    let mut read = vec![0; bytes.len()];
    source.read_exact_at(0, &mut read).unwrap();
    assert!(read == bytes);
    assert_eq!(server.n_requests(), 1 + 3);
    assert!(server.most_at_once() >= 2);
}

/// Reads pieces of a file in an order, with that order as the plan.
fn planned(delay: u64, order: &[std::ops::Range<u64>], plan: &[std::ops::Range<u64>]) -> (Server, u64, Duration) {
    let bytes = pattern(48 << 20);
    let served = bytes.clone();
    let server = Server::start(move |_, request| {
        std::thread::sleep(Duration::from_millis(delay));
        file(request, &served, "\"1\"")
    });
    let (client, _) = client(&server.address);
    let location = server.url("/x");
    let source = HttpFile::open(&client, &Url::parse(&location).unwrap()).unwrap();
    // Without the rest of the first response.
    let mut first = [0];
    source.read_exact_at(bytes.len() as u64 - 1, &mut first).unwrap();
    let (requests, started) = (server.n_requests(), Instant::now());
    let plan = plan.iter().map(|range| (PathBuf::from(&location), range.clone()));
    client.ahead(plan.collect::<Vec<_>>().into_iter(), || {
        let next = std::sync::Mutex::new(order.iter());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        let Some(range) = next.lock().unwrap().next() else { return };
                        let mut read = vec![0; (range.end - range.start) as usize];
                        match range.start >> 20 & 1 {
                            0 => source.read_exact_at(range.start, &mut read).unwrap(),
                            _ => source.read_vec_at(range.start, &mut read).unwrap(),
                        }
                        assert!(read == bytes[range.start as usize..range.end as usize]);
                    }
                });
            }
        });
    });
    let (asked, elapsed) = (asked_after(requests, &server), started.elapsed());
    (server, asked, elapsed)
}

#[test]
fn planned_reads_are_fetched_once_and_at_the_same_time() {
    // Tensors of different lengths, not in the order of the file.
    let tensors: Vec<_> = (0..40u64).map(|i| (i * 17 % 40) << 20).map(|at| at..at + (1 << 20) - 7).collect();
    // So long that a busy machine makes no difference.
    let delay = 400;
    let (server, asked, elapsed) = planned(delay, &tensors, &tensors);
    let total: u64 = tensors.iter().map(|range| range.end - range.start).sum();
    assert_eq!(asked, total);
    assert!(server.most_at_once() >= 4, "{}", server.most_at_once());
    assert!(elapsed < Duration::from_millis(delay * 40 / 2), "{elapsed:?}");
}

#[test]
fn other_reads_than_planned_are_right_too() {
    let order: Vec<_> = (0..44u64).map(|i| i << 20..(i + 1) << 20).collect();
    let reversed: Vec<_> = order.iter().rev().cloned().collect();
    planned(0, &order, &reversed);
    let shifted: Vec<_> = order.iter().map(|range| range.start + 300..range.end + 777).collect();
    planned(0, &order, &shifted);
    let repeated: Vec<_> = order.iter().chain(&order).cloned().collect();
    planned(0, &repeated, &order);
    planned(0, &order, &repeated);
    planned(0, &order[..3], &order);
    planned(0, &order, &[]);
    let outside = [50 << 20..60 << 20, 47 << 20..49 << 20];
    planned(0, &order, &outside);
}

#[test]
fn planned_reads_are_not_copied() {
    let bytes = pattern(9 << 20);
    let served = bytes.clone();
    let server = Server::start(move |_, request| file(request, &served, "\"1\""));
    let (client, _) = client(&server.address);
    let location = server.url("/x");
    let source = HttpFile::open(&client, &Url::parse(&location).unwrap()).unwrap();
    // Reads of a run: the longest, one that is joined with the next, and the rest.
    let reads = [0..4 << 20, 4 << 20..5 << 20, 5 << 20..(5 << 20) + 32, (5 << 20) + 32..(9 << 20) + 32 - 64];
    let plan = reads.iter().map(|range: &std::ops::Range<u64>| (PathBuf::from(&location), range.clone()));
    let exchanged = client.ahead(plan.collect::<Vec<_>>().into_iter(), || {
        let read = |range: &std::ops::Range<u64>| {
            let mut read = vec![0; (range.end - range.start) as usize];
            let before = read.as_ptr();
            source.read_vec_at(range.start, &mut read).unwrap();
            assert!(read == bytes[range.start as usize..range.end as usize], "{range:?}");
            before != read.as_ptr()
        };
        reads.each_ref().map(read)
    });
    assert_eq!(exchanged, [true, false, false, true]);
    let beyond = source.read_vec_at(9 << 20, &mut vec![0; 1]).unwrap_err();
    assert_eq!(beyond.kind(), std::io::ErrorKind::UnexpectedEof);
}
