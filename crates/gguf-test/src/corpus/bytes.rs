//! A writer of GGUF bytes without validation: every length, count, type and offset can be set to anything.
//!
//! It shares no code with the tested crate, so that its files are independent test data.

/// The format of a file.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub version: u32,
    pub big: bool,
    /// Whether every string counts a trailing NUL.
    pub nul: bool,
    pub reversed_magic: bool,
    pub draft: Option<Draft>,
}

/// The variants of the draft of version 1.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    pub inclusive: bool,
    pub type_first: bool,
    pub full_padding: bool,
}

const fn form(version: u32, big: bool) -> Form {
    Form { version, big, nul: false, reversed_magic: false, draft: None }
}

pub const V3: Form = form(3, false);
pub const V3_BIG: Form = form(3, true);
pub const V2: Form = form(2, false);
pub const V2_BIG: Form = form(2, true);
pub const V2_NUL: Form = Form { nul: true, ..V2 };
pub const V1: Form = form(1, false);
pub const V1_BIG: Form = form(1, true);
pub const V1_NUL: Form = Form { nul: true, ..V1 };
pub const V3_REVERSED: Form = Form { reversed_magic: true, ..V3_BIG };
pub const DRAFT: Form = draft(false, false, false);
pub const fn draft(inclusive: bool, type_first: bool, full_padding: bool) -> Form {
    Form { draft: Some(Draft { inclusive, type_first, full_padding }), ..V1 }
}

/// The value types, as the numbers in the file.
pub const U8: u32 = 0;
pub const I8: u32 = 1;
pub const U16: u32 = 2;
pub const I16: u32 = 3;
pub const U32: u32 = 4;
pub const I32: u32 = 5;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;
pub const U64: u32 = 10;
pub const I64: u32 = 11;
pub const F64: u32 = 12;

impl Form {
    pub fn u16(self, v: u16) -> Vec<u8> {
        if self.big { v.to_be_bytes().to_vec() } else { v.to_le_bytes().to_vec() }
    }

    pub fn u32(self, v: u32) -> Vec<u8> {
        if self.big { v.to_be_bytes().to_vec() } else { v.to_le_bytes().to_vec() }
    }

    pub fn u64(self, v: u64) -> Vec<u8> {
        if self.big { v.to_be_bytes().to_vec() } else { v.to_le_bytes().to_vec() }
    }

    pub fn wide(self) -> bool {
        self.version > 1
    }

    /// A count, a length or a dimension; numbers too wide for version 1 are saturated.
    pub fn len(self, v: u64) -> Vec<u8> {
        if self.wide() { self.u64(v) } else { self.u32(u32::try_from(v).unwrap_or(u32::MAX)) }
    }

    pub fn string(self, text: &[u8]) -> Vec<u8> {
        let nul: &[u8] = if self.nul { &[0] } else { &[] };
        [&self.len((text.len() + nul.len()) as u64), text, nul].concat()
    }

    /// A string that claims to have `len` bytes.
    pub fn string_of(self, len: u64, text: &[u8]) -> Vec<u8> {
        [&self.len(len), text].concat()
    }

    /// An array of encoded elements.
    pub fn array(self, elem: u32, len: u64, elements: &[u8]) -> Vec<u8> {
        let (ty, len) = (self.u32(elem), self.len(len));
        match self.draft {
            Some(Draft { type_first: false, .. }) => [&len, &ty, elements].concat(),
            _ => [&ty, &len, elements].concat(),
        }
    }

    pub fn strings(self, texts: &[&str]) -> Vec<u8> {
        let elements: Vec<u8> = texts.iter().flat_map(|t| self.string(t.as_bytes())).collect();
        self.array(STRING, texts.len() as u64, &elements)
    }

    /// A value of a type of at most eight bytes, from the lowest bytes of a number.
    pub fn number(self, ty: u32, v: u64) -> Vec<u8> {
        match ty {
            U8 | I8 | BOOL => vec![v as u8],
            U16 | I16 => self.u16(v as u16),
            U32 | I32 | F32 => self.u32(v as u32),
            _ => self.u64(v),
        }
    }

    /// An arbitrary value of a type.
    pub fn some(self, ty: u32) -> Vec<u8> {
        match ty {
            BOOL => vec![1],
            STRING => self.string(b"text"),
            ARRAY => self.array(U32, 2, &[self.u32(1), self.u32(2)].concat()),
            F32 => self.u32(1.5f32.to_bits()),
            F64 => self.u64((-2.5f64).to_bits()),
            _ => self.number(ty, 0x8182_8384_8586_8788),
        }
    }

    /// A key, the type of its value and the value.
    pub fn kv(self, key: &[u8], ty: u32, value: &[u8]) -> Vec<u8> {
        let inner = match ty {
            _ if self.draft.is_none_or(|d| d.inclusive) => 0,
            STRING => 4,
            ARRAY => 8,
            _ => 0,
        };
        self.kv_stating(key, value.len().saturating_sub(inner) as u32, ty, value)
    }

    /// A key-value pair that states the length of its value, as drafts do; for released versions the length is left out.
    pub fn kv_stating(self, key: &[u8], stated: u32, ty: u32, value: &[u8]) -> Vec<u8> {
        let stated = if self.draft.is_some() { self.u32(stated) } else { vec![] };
        [self.string(key), stated, self.u32(ty), value.to_vec()].concat()
    }

    pub fn info(self, name: &[u8], dims: &[u64], ty: u32, offset: u64) -> Vec<u8> {
        let n = dims.iter().fold(1u64, |n, &d| n.wrapping_mul(d));
        self.info_stating(name, dims.len() as u32, dims, n as u32, ty, offset)
    }

    /// The same, with an explicit number of dimensions and the draft's number of elements.
    pub fn info_stating(self, name: &[u8], n_dims: u32, dims: &[u64], n: u32, ty: u32, offset: u64) -> Vec<u8> {
        let mut out = [self.string(name), self.u32(n_dims)].concat();
        dims.iter().for_each(|&d| out.extend(self.len(d)));
        if self.draft.is_some() {
            out.extend(self.u32(n));
        }
        [out, self.u32(ty), self.u64(offset)].concat()
    }

    /// A file without pairs, tensors and data.
    pub fn file(self) -> File {
        File { form: self, kvs: vec![], infos: vec![], n_kv: None, n_tensors: None, align: None, data: vec![] }
    }

    /// A file with the pair required by most readers.
    pub fn llama(self) -> File {
        self.file().kv("general.architecture", STRING, self.string(b"llama"))
    }
}

/// A file under construction: encoded pairs and infos, and the data.
#[derive(Clone, Debug)]
pub struct File {
    pub form: Form,
    kvs: Vec<Vec<u8>>,
    infos: Vec<Vec<u8>>,
    n_kv: Option<u64>,
    n_tensors: Option<u64>,
    align: Option<u64>,
    data: Vec<u8>,
}

impl File {
    pub fn kv(self, key: impl AsRef<[u8]>, ty: u32, value: impl AsRef<[u8]>) -> File {
        let encoded = self.form.kv(key.as_ref(), ty, value.as_ref());
        self.raw_kv(encoded)
    }

    pub fn raw_kv(mut self, encoded: Vec<u8>) -> File {
        self.kvs.push(encoded);
        self
    }

    pub fn tensor(self, name: impl AsRef<[u8]>, dims: &[u64], ty: u32, offset: u64) -> File {
        let encoded = self.form.info(name.as_ref(), dims, ty, offset);
        self.raw_tensor(encoded)
    }

    pub fn raw_tensor(mut self, encoded: Vec<u8>) -> File {
        self.infos.push(encoded);
        self
    }

    /// Sets the number of pairs in the header.
    pub fn n_kv(mut self, n: u64) -> File {
        self.n_kv = Some(n);
        self
    }

    /// Sets the number of tensors in the header.
    pub fn n_tensors(mut self, n: u64) -> File {
        self.n_tensors = Some(n);
        self
    }

    /// Sets the alignment of the data section, without a key for it.
    pub fn align(mut self, to: u64) -> File {
        self.align = Some(to);
        self
    }

    /// Sets the data to the bytes 1, 2, 3 and so on. Without any the file ends with its head.
    pub fn data(mut self, n: usize) -> File {
        self.data = (1..=n).map(|i| i as u8).collect();
        self
    }

    /// The end of the pairs, before any padding.
    pub fn pairs_end(&self) -> usize {
        8 + 2 * self.form.len(0).len() + self.kvs.iter().map(Vec::len).sum::<usize>()
    }

    /// The header, the pairs and the infos.
    pub fn head(&self) -> Vec<u8> {
        let f = self.form;
        let mut out = if f.reversed_magic { b"FUGG".to_vec() } else { b"GGUF".to_vec() };
        out.extend(f.u32(f.version));
        out.extend(f.len(self.n_tensors.unwrap_or(self.infos.len() as u64)));
        out.extend(f.len(self.n_kv.unwrap_or(self.kvs.len() as u64)));
        out.extend(self.kvs.concat());
        if let Some(draft) = f.draft {
            let mut to = out.len().next_multiple_of(64);
            if to == out.len() && draft.full_padding {
                to += 64;
            }
            out.resize(to, 0);
        }
        out.extend(self.infos.concat());
        out
    }

    /// The whole file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.head();
        if !self.data.is_empty() {
            let align = self.align.unwrap_or(if self.form.draft.is_some() { 64 } else { 32 });
            out.resize(out.len().next_multiple_of(align as usize), 0);
            out.extend(&self.data);
        }
        out
    }
}
