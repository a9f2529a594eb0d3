//! Files of `torch.save` for tests: pickles built instruction by instruction, and the two container formats.

pub mod hostile;

/// A pickle under construction.
#[derive(Clone, Debug, Default)]
pub struct Pickle(pub Vec<u8>);

/// A tensor to save: a view of a storage.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    pub name: &'a str,
    /// The class of the storage, such as `FloatStorage`.
    pub class: &'a str,
    pub key: &'a str,
    /// Number of elements of the storage.
    pub elements: i64,
    pub offset: i64,
    pub shape: &'a [i64],
    pub strides: &'a [i64],
}

impl Pickle {
    /// An empty pickle of that protocol.
    pub fn new(protocol: u8) -> Pickle {
        Pickle(vec![0x80, protocol])
    }

    /// Adds raw instructions.
    pub fn op(mut self, bytes: &[u8]) -> Pickle {
        self.0.extend(bytes);
        self
    }

    pub fn text(self, text: &str) -> Pickle {
        self.op(b"X").op(&(text.len() as u32).to_le_bytes()).op(text.as_bytes())
    }

    /// Adds an integer of eight bytes.
    pub fn int(self, n: i64) -> Pickle {
        self.op(&[0x8a, 8]).op(&n.to_le_bytes())
    }

    pub fn ints(self, numbers: &[i64]) -> Pickle {
        let tuple = numbers.iter().fold(self.op(b"("), |pickle, n| pickle.int(*n));
        tuple.op(b"t")
    }

    pub fn global(self, module: &str, name: &str) -> Pickle {
        self.op(format!("c{module}\n{name}\n").as_bytes())
    }

    /// Adds the tuple that represents a storage.
    pub fn storage(self, class: &str, key: &str, elements: i64) -> Pickle {
        self.op(b"(").text("storage").global("torch", class).text(key).text("cpu").int(elements).op(b"tQ")
    }

    /// Adds a call that creates a tensor.
    pub fn tensor(self, saved: &Saved<'_>) -> Pickle {
        let call = self.global("torch._utils", "_rebuild_tensor_v2").op(b"(");
        let storage = call.storage(saved.class, saved.key, saved.elements).int(saved.offset);
        storage.ints(saved.shape).ints(saved.strides).op(b"\x89ccollections\nOrderedDict\n)RtR")
    }

    /// Ends the pickle.
    pub fn end(self) -> Vec<u8> {
        self.op(b".").0
    }
}

/// The pickle of a dictionary of tensors.
pub fn state_dict(tensors: &[Saved<'_>]) -> Vec<u8> {
    let start = Pickle::new(2).op(b"}(");
    tensors.iter().fold(start, |pickle, saved| pickle.text(saved.name).tensor(saved)).op(b"u").end()
}

/// A member of a zip archive, with optional false records.
#[derive(Clone, Debug, Default)]
pub struct Member {
    pub name: Vec<u8>,
    pub data: Vec<u8>,
    pub method: u16,
    pub flags: u16,
    pub size: Option<u32>,
    pub stored: Option<u32>,
    pub header: Option<u32>,
    /// The extra field in the directory.
    pub extra: Vec<u8>,
    /// The name before the data, if it differs.
    pub local_name: Option<Vec<u8>>,
    pub local_signature: Option<[u8; 4]>,
}

impl Member {
    pub fn new(name: &str, data: impl Into<Vec<u8>>) -> Member {
        Member { name: name.as_bytes().to_vec(), data: data.into(), ..Member::default() }
    }
}

/// The end of a zip archive, with optional false values.
#[derive(Clone, Debug, Default)]
pub struct End {
    pub disk: u16,
    pub entries: Option<u16>,
    pub directory_bytes: Option<u32>,
    pub directory_at: Option<u32>,
    pub comment: Vec<u8>,
    /// The bytes between the directory and the end.
    pub between: Vec<u8>,
}

/// A zip archive of stored members, with data at multiples of 64 bytes like PyTorch's.
pub fn zip(members: &[Member], end: &End) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let short = |n: usize| (n as u16).to_le_bytes();
    let long = |n: usize| (n as u32).to_le_bytes();
    for member in members {
        let header = out.len();
        let local_name = member.local_name.as_ref().unwrap_or(&member.name);
        let fixed = header + 30 + local_name.len();
        let padding = (fixed + 4).next_multiple_of(64) - fixed;
        let sizes = [long(member.data.len()), long(member.data.len())].concat();
        out.extend(member.local_signature.unwrap_or(*b"PK\x03\x04"));
        out.extend([0, 0]);
        out.extend([member.flags.to_le_bytes(), member.method.to_le_bytes()].concat());
        out.extend([0; 8]);
        out.extend(&sizes);
        out.extend([short(local_name.len()), short(padding)].concat());
        out.extend(local_name);
        out.extend(b"FB");
        out.extend(short(padding - 4));
        out.resize(fixed + padding, b'Z');
        out.extend(&member.data);

        directory.extend(b"PK\x01\x02\0\0\0\0");
        directory.extend([member.flags.to_le_bytes(), member.method.to_le_bytes()].concat());
        directory.extend([0; 8]);
        directory.extend(member.stored.map_or(long(member.data.len()), u32::to_le_bytes));
        directory.extend(member.size.map_or(long(member.data.len()), u32::to_le_bytes));
        directory.extend([short(member.name.len()), short(member.extra.len())].concat());
        directory.extend([0; 10]);
        directory.extend(member.header.map_or(long(header), u32::to_le_bytes));
        directory.extend(&member.name);
        directory.extend(&member.extra);
    }
    let (at, bytes) = (out.len(), directory.len());
    out.extend(directory);
    out.extend(&end.between);
    out.extend(b"PK\x05\x06");
    out.extend([end.disk.to_le_bytes(), [0, 0]].concat());
    let entries = end.entries.map_or(short(members.len()), u16::to_le_bytes);
    out.extend([entries, entries].concat());
    out.extend(end.directory_bytes.map_or(long(bytes), u32::to_le_bytes));
    out.extend(end.directory_at.map_or(long(at), u32::to_le_bytes));
    out.extend(short(end.comment.len()));
    out.extend(&end.comment);
    out
}

/// The members of a file of `torch.save`: a pickle and storages.
pub fn members(pickle: &[u8], storages: &[(&str, Vec<u8>)]) -> Vec<Member> {
    let mut members = vec![Member::new("model/data.pkl", pickle), Member::new("model/byteorder", *b"little")];
    let data = |(key, data): &(&str, Vec<u8>)| Member::new(&format!("model/data/{key}"), data.clone());
    members.extend(storages.iter().map(data));
    members
}

/// A file of `torch.save`.
pub fn file(pickle: &[u8], storages: &[(&str, Vec<u8>)]) -> Vec<u8> {
    zip(&members(pickle, storages), &End::default())
}

/// The bytes before the pickle of the tensors in a file of the old format.
pub fn stream_start() -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let version = b"\x80\x02M\xe9\x03.";
    let machine = Pickle::new(2).op(b"}").text("little_endian").op(b"\x88s").end();
    [&magic[..], version, &machine].concat()
}

/// A file of the old format; each storage has its key, its number of elements and its data.
pub fn stream(pickle: &[u8], storages: &[(&str, u64, Vec<u8>)]) -> Vec<u8> {
    let keys = storages.iter().fold(Pickle::new(2).op(b"]("), |pickle, (key, ..)| pickle.text(key)).op(b"e").end();
    let data = storages.iter().flat_map(|(_, n, data)| [&n.to_le_bytes()[..], data].concat());
    [stream_start(), pickle.to_vec(), keys, data.collect()].concat()
}
