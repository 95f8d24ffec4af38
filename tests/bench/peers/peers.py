"""Headrace and its peers on the same files of requests, taking turns. peers.sh starts this; README.md explains it."""
import argparse
import json
import os
import pathlib
import platform
import signal
import sys
import time

import report
from engines import VARIANTS, headrace_variant
from runs import Bench, identity, run_once
from workloads import WORKLOADS, write_requests

ROOT = pathlib.Path(__file__).resolve().parents[3]


def cache_folder():
    if "HEADRACE_CACHE" in os.environ:
        return pathlib.Path(os.environ["HEADRACE_CACHE"]) / "peers"
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "headrace/peers"


def read_options():
    parser = argparse.ArgumentParser(prog="peers.sh", description=__doc__)
    parser.add_argument("--workloads", default=",".join(WORKLOADS),
                        help="; ".join(f"{name}: {w.meaning}" for name, w in WORKLOADS.items()))
    parser.add_argument("--engines", default="all",
                        help="comma-separated starts of names: " + " ".join(v.title for v in VARIANTS))
    parser.add_argument("--add", action="append", default=[], metavar="NAME=OPTIONS",
                        help="Headrace with other options of generate, e.g. 'two-replicas=-dp 2'; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fraction", type=float, default=1.0, help="of each workload's requests, to try things out")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for each engine in all")
    parser.add_argument("--headrace", type=pathlib.Path, default=ROOT / "build/release/launch/headrace", metavar="PROGRAM")
    parser.add_argument("--model", type=pathlib.Path, default=os.environ.get("HEADRACE_BENCH_MODEL"), metavar="GGUF")
    parser.add_argument("--home", type=pathlib.Path, default=cache_folder(), help="environments, models, logs [%(default)s]")
    parser.add_argument("--log", type=pathlib.Path, help="a line a run [HOME/runs.jsonl]")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one run")
    parser.add_argument("--search", action="store_true", help="look for each peer's best settings, on the first workload")
    parser.add_argument("--report", action="store_true", help="only show what the log holds")
    options = parser.parse_args()
    unknown = [name for name in options.workloads.split(",") if name not in WORKLOADS]
    if unknown:
        parser.error(f"unknown workload {unknown[0]} (there are {', '.join(WORKLOADS)})")
    if options.model is None:
        parser.error("--model is needed (peers.sh names the quickstart's)")
    if not options.report and not options.headrace.exists():
        parser.error(f"no program {options.headrace}: build it (cmake --preset release), or say --headrace")
    options.log = options.log or options.home / "runs.jsonl"
    return options


def chosen_variants(options):
    variants = VARIANTS + [headrace_variant(text) for text in options.add]
    if options.engines == "all":
        return variants
    starts = tuple(options.engines.split(","))
    return [v for v in variants if v.title.startswith(starts) or (v.engine == "headrace" and "headrace" in starts)]


class Log:
    """A line a run, appended as it ends."""

    def __init__(self, path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.runs = report.read_log(path)

    def find(self, key):
        """The latest sound run with that key."""
        return next((run for run in reversed(self.runs) if run["key"] == key and "error" not in run), None)

    def append(self, run):
        self.runs.append(run)
        with open(self.path, "a") as output:
            output.write(json.dumps(run) + "\n")
            output.flush()
            os.fsync(output.fileno())


def settings_of(home, variant):
    """The table's, and before them what a search on this machine found."""
    found = home / "settings.json"
    searched = json.loads(found.read_text()) if found.exists() else {}
    return variant.settings | searched.get(variant.title, {})


def turn(bench, log, variant, settings, requests, place):
    """A run that the log does not hold yet; its facts."""
    key = {"requests": requests.digest, "variant": variant.title, "settings": settings, "threads": bench.threads,
           "program": identity(bench, variant)} | place
    done = log.find(key)
    if done:
        return done
    facts = run_once(bench, variant, settings, requests)
    key["program"] = identity(bench, variant)  # it may have been installed only now
    run = {"key": key, "engine": variant.engine, "arithmetic": variant.arithmetic, "workload": place["workload"],
           "num_requests": requests.num_requests, "cpu": cpu_name(), "time": time.strftime("%Y-%m-%d %H:%M:%S")} | facts
    log.append(run)
    print(report.line_of(run), flush=True)
    return run


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def run_rounds(options, bench, log):
    variants = chosen_variants(options)
    (bench.home / "requests").mkdir(parents=True, exist_ok=True)
    for name in options.workloads.split(","):
        requests = write_requests(name, options.fraction, bench.home / "requests")
        failed = set()
        for number in range(options.rounds):
            first = number % max(len(variants), 1)  # who goes first changes
            for variant in variants[first:] + variants[:first]:
                if variant.title not in failed:
                    run = turn(bench, log, variant, settings_of(bench.home, variant), requests,
                               {"workload": name, "round": number + 1})
                    if "error" in run:
                        failed.add(variant.title)


def search(options, bench, log):
    """One setting after the other, the best value of each kept: not every combination, but enough to find what matters."""
    name = options.workloads.split(",")[0]
    (bench.home / "requests").mkdir(parents=True, exist_ok=True)
    requests = write_requests(name, options.fraction, bench.home / "requests")
    for variant in chosen_variants(options):
        best, best_wall_s = dict(settings_of(bench.home, variant)), None
        for setting, values in variant.search.items():
            for value in dict.fromkeys([best[setting], *values]):
                tried = best | {setting: value}
                run = turn(bench, log, variant, tried, requests, {"workload": name, "round": "search"})
                if "error" not in run and (best_wall_s is None or run["wall_s"] < best_wall_s):
                    best, best_wall_s = tried, run["wall_s"]
        if best_wall_s is not None:
            remember(bench.home, variant, best)
            print(f"{variant.title}: best with {json.dumps(best)}", flush=True)


def remember(home, variant, settings):
    path = home / "settings.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    found[variant.title] = settings
    path.write_text(json.dumps(found, indent=1) + "\n")


def main():
    # Both unwind, so that the engine that runs is ended too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit("stopped; the same command goes on"))
    options = read_options()
    log = Log(options.log)
    bench = Bench(options.home.resolve(), options.model.resolve(), options.headrace.resolve(), options.threads, options.timeout)
    if options.search:
        search(options, bench, log)
    elif not options.report:
        run_rounds(options, bench, log)
    if not options.search:
        print(report.tables(log.runs))


if __name__ == "__main__":
    main()
