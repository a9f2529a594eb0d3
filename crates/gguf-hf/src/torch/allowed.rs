//! The classes and functions that a pickle may name. All others are refused, because a pickle can run code through any function that it names.

use crate::dtype::Dtype;

/// A known class or function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `torch._utils._rebuild_tensor`: storage, offset, shape, strides.
    Tensor,
    /// `torch._utils._rebuild_tensor_v2`: the same, then arguments for gradients.
    TensorV2,
    /// `torch._utils._rebuild_tensor_v3`: the same, then the number format.
    TensorV3,
    /// `torch._utils._rebuild_parameter` and the class itself: a tensor, then arguments for gradients.
    Parameter,
    /// `torch._tensor._rebuild_from_type_v2`: a function, a class, the function's arguments, a state.
    FromType,
    /// A tensor class; it may be named but not called.
    TensorClass,
    /// `torch.Size`: a tuple.
    Size,
    /// A storage class with the number format of its elements; `None` for bytes.
    Storage(Option<Dtype>),
    /// A number format.
    Dtype(Dtype),
    /// A function or class whose values are not tensors and are ignored.
    Opaque,
}

/// The known globals, by module and name.
pub(super) fn find(module: &str, name: &str) -> Option<Global> {
    let row = GLOBALS.iter().find(|(m, n, _)| *m == module && *n == name).map(|(.., global)| *global);
    row.or_else(|| {
        let dtype = |table: &[(&str, &str)], name: &str| {
            let (_, dtype) = table.iter().find(|(n, _)| *n == name)?;
            Dtype::from_name(dtype)
        };
        match module {
            "torch" | "torch.cuda" if name.ends_with("Storage") => {
                dtype(STORAGES, name.strip_suffix("Storage")?).map(|dtype| Global::Storage(Some(dtype)))
            }
            "torch" => dtype(DTYPES, name).map(Global::Dtype),
            _ => None,
        }
    })
}

const GLOBALS: &[(&str, &str, Global)] = &[
    ("collections", "OrderedDict", Global::OrderedDict),
    ("torch._utils", "_rebuild_tensor", Global::Tensor),
    ("torch._utils", "_rebuild_tensor_v2", Global::TensorV2),
    ("torch._utils", "_rebuild_tensor_v3", Global::TensorV3),
    ("torch._utils", "_rebuild_parameter", Global::Parameter),
    ("torch._utils", "_rebuild_parameter_with_state", Global::Parameter),
    ("torch.nn.parameter", "Parameter", Global::Parameter),
    ("torch._tensor", "_rebuild_from_type_v2", Global::FromType),
    ("torch", "Tensor", Global::TensorClass),
    ("torch", "Size", Global::Size),
    ("torch.storage", "UntypedStorage", Global::Storage(None)),
    ("torch", "UntypedStorage", Global::Storage(None)),
    ("torch.storage", "_UntypedStorage", Global::Storage(None)),
    // Other globals that torch.load reads without executing code from the file.
    ("torch", "device", Global::Opaque),
    ("torch.serialization", "_get_layout", Global::Opaque),
    ("collections", "Counter", Global::Opaque),
    ("builtins", "set", Global::Opaque),
    ("builtins", "bytearray", Global::Opaque),
    ("builtins", "complex", Global::Opaque),
    ("__builtin__", "set", Global::Opaque),
    ("__builtin__", "bytearray", Global::Opaque),
    ("__builtin__", "complex", Global::Opaque),
    ("_codecs", "encode", Global::Opaque),
    // Numpy scalars, as in training states.
    ("numpy", "dtype", Global::Opaque),
    ("numpy.core.multiarray", "scalar", Global::Opaque),
    ("numpy._core.multiarray", "scalar", Global::Opaque),
];

/// The storage classes without their suffix, and their number formats.
const STORAGES: &[(&str, &str)] = &[
    ("Float", "F32"),
    ("Double", "F64"),
    ("Half", "F16"),
    ("BFloat16", "BF16"),
    ("Byte", "U8"),
    ("Char", "I8"),
    ("Short", "I16"),
    ("Int", "I32"),
    ("Long", "I64"),
    ("Bool", "BOOL"),
    ("ComplexFloat", "C64"),
];

/// PyTorch's names of number formats.
const DTYPES: &[(&str, &str)] = &[
    ("float32", "F32"),
    ("float64", "F64"),
    ("float16", "F16"),
    ("bfloat16", "BF16"),
    ("uint8", "U8"),
    ("int8", "I8"),
    ("int16", "I16"),
    ("int32", "I32"),
    ("int64", "I64"),
    ("uint16", "U16"),
    ("uint32", "U32"),
    ("uint64", "U64"),
    ("bool", "BOOL"),
    ("complex64", "C64"),
    ("float8_e4m3fn", "F8_E4M3"),
    ("float8_e5m2", "F8_E5M2"),
    ("float8_e4m3fnuz", "F8_E4M3FNUZ"),
    ("float8_e5m2fnuz", "F8_E5M2FNUZ"),
    ("float8_e8m0fnu", "F8_E8M0"),
];
