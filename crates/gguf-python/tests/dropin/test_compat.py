"""How programs get the drop-in: by PYTHONPATH, in a process, or by a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from both import DROPIN, OURS

HERE = Path(__file__).parent


def python(code: str, *, first: str | None = None) -> str:
    path = [entry for entry in (first, *sys.path) if entry and not entry.startswith(str(HERE))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_the_folder_is_printed() -> None:
    printed = python("import runpy; runpy.run_module('ggufkit.compat', run_name='__main__')")
    assert Path(printed).samefile(DROPIN)


def test_programs_find_it_by_the_path() -> None:
    code = "import gguf, importlib.metadata as m, importlib.util as u; print(gguf.__file__, m.version('gguf'), u.find_spec('gguf').origin)"
    module, version, origin = python(code, first=str(DROPIN)).split()
    assert Path(module).samefile(DROPIN / "gguf/__init__.py") and version.startswith("0.19.0+ggufkit") and module == origin


def test_it_is_installed_in_a_process() -> None:
    code = (
        "import sys, types; sys.modules['gguf'] = types.ModuleType('gguf'); sys.modules['gguf.constants'] = types.ModuleType('gguf.constants')\n"
        "import ggufkit.compat; ggufkit.compat.install(); ggufkit.compat.install()\n"
        "import gguf; print(gguf.__file__, gguf.MODEL_ARCH.LLAMA.name, sys.path.count(str(ggufkit.compat.folder())))"
    )
    module, name, n = python(code).split()
    assert Path(module).samefile(DROPIN / "gguf/__init__.py") and name == "LLAMA" and n == "1"


def test_ggufkit_does_not_import_it() -> None:
    assert python("import sys, ggufkit; print('gguf' in sys.modules)") == "False"


def test_only_numpy_is_needed(tmp_path: Path) -> None:
    for name in ("yaml", "tqdm", "requests", "sentencepiece"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not installed')")
    code = "import gguf; gguf.Metadata.load(); print(gguf.yaml)"
    assert python(code, first=os.pathsep.join([str(tmp_path), str(DROPIN)])) == "None"


def test_a_wheel_has_the_package_and_its_commands(tmp_path: Path) -> None:
    script = HERE.parent.parent / "dropin/build_wheel.py"
    wheels = [subprocess.run([sys.executable, script, tmp_path / name], check=True, capture_output=True, text=True).stdout.strip() for name in "ab"]
    assert Path(wheels[0]).read_bytes() == Path(wheels[1]).read_bytes()
    target = tmp_path / "site"
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(target)
    code = "import gguf, importlib.metadata as m; print(gguf.__file__, *sorted(e.name for e in m.distribution('gguf').entry_points))"
    module, *commands = python(code, first=str(target)).split()
    assert Path(module).is_relative_to(target)
    assert commands == sorted(name.replace("_", "-") for name in OURS.scripts)
