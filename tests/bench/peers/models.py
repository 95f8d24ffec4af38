"""The one model in the forms that the engines read, each made once from the GGUF file."""
import pathlib
import shutil
import subprocess

from environments import Unavailable, last_line, python_of

HERE = pathlib.Path(__file__).resolve().parent
LLAMA_KINDS = ("f16", "bf16", "q8_0", "q4_0")


def model_path(home, source, kind):
    """Where the model is in that form. Raises Unavailable."""
    if kind == "gguf":
        return source
    target = home / "models" / (f"{source.stem}.{kind}.gguf" if kind in LLAMA_KINDS else f"{source.stem}.{kind}")
    if not target.exists():
        make(home, source, kind, target)
    return target


def make(home, source, kind, target):
    environment, script = ("llama", "quantize_llama.py") if kind in LLAMA_KINDS else ("export", "export_model.py")
    python = python_of(home, environment)
    print(f"making model {kind}", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".unfinished")
    remove(unfinished)
    log = home / f"{kind}.model.log"
    with open(log, "w") as output:
        if subprocess.run([python, HERE / script, source, kind, unfinished], stdout=output, stderr=output).returncode != 0:
            raise Unavailable(f"model {kind} could not be made: {last_line(log)} ({log})")
    remove(unfinished.with_name(unfinished.name + ".source"))
    unfinished.rename(target)


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
