"""The log of runs as tables: medians, ratios, memory, settings."""
import json
import statistics

from engines import BF16, QUANTISED
from workloads import WORKLOADS


def read_log(path):
    """Runs in order. A line that was cut off by a crash is left out."""
    runs = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                runs.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return runs


def rate(run):
    """Tokens a second: output, or for workloads of long prompts prompt and output together."""
    tokens = run["output_tokens"]
    if WORKLOADS[run["workload"]].counts_prompt:
        tokens += run["prompt_tokens"]
    return tokens / run["wall_s"]


def line_of(run):
    key = run["key"]
    start = f"{run['workload']} round {key['round']} {key['variant']}: "
    if "error" in run:
        return start + run["error"]
    return start + (f"{rate(run):.1f} tokens/s, {run['wall_s']:.2f} s, loading {run['load_s']:.1f} s, {run['peak_mib']} MiB"
                    + (f"  {json.dumps(key['settings'])}" if key["round"] == "search" else ""))


def groups_of(runs):
    """{(workload, number of requests, threads): {(variant, program, settings): runs}}, the latest program of each last."""
    groups = {}
    for run in runs:
        key = run["key"]
        if key["round"] == "search":
            continue
        place = (run["workload"], run["num_requests"], key["requests"], key["threads"], run["cpu"])
        who = (key["variant"], key["program"], json.dumps(key["settings"]))
        groups.setdefault(place, {}).setdefault(who, []).append(run)
    return groups


def tables(runs):
    groups = groups_of(runs)
    if not groups:
        return "the log holds no runs"
    parts = [table(place, rows) for place, rows in groups.items()]
    return "\n".join([*parts, settings_text(groups)])


def best_rate(rows, wanted):
    """Median rate of the fastest row for which wanted(run) holds; None where there is none."""
    rates = [statistics.median(map(rate, sound)) for runs in rows.values()
             if (sound := [r for r in runs if "error" not in r]) and wanted(sound[0])]
    return max(rates, default=None)


def table(place, rows):
    name, count, _, threads, cpu = place
    what = "prompt and output tokens/s" if WORKLOADS[name].counts_prompt else "output tokens/s"
    lines = ["", f"{name}: {count} requests, {WORKLOADS[name].meaning}; {threads} threads of {cpu}",
             f"{'':26}{what:>30}{'loading':>10}{'memory':>11}{'beside the fastest peer in':>30}",
             f"{'':26}{'median [min - max], runs':>30}{'s':>10}{'MiB':>11}{'bf16':>18}{'8-/4-bit':>12}"]
    peers = {kind: best_rate(rows, lambda r, kind=kind: r["engine"] != "headrace" and r["arithmetic"] == kind)
             for kind in (BF16, QUANTISED)}
    for (variant, program, _), runs in sorted(rows.items(), key=lambda item: (item[1][0]["arithmetic"] != BF16, item[0])):
        title = f"{variant} ({program[:6]})" if variant.startswith("headrace") else variant
        sound = [r for r in runs if "error" not in r]
        if not sound:
            lines.append(f"{title:26}  failed: {runs[-1]['error']}")
            continue
        rates = [rate(r) for r in sound]
        middle = statistics.median(rates)
        spread = f"{middle:.1f} [{min(rates):.1f} - {max(rates):.1f}], {len(rates)}"
        ratios = "".join(f"{middle / peers[kind]:>{width}.2f}" if peers[kind] else f"{'-':>{width}}"
                         for kind, width in ((BF16, 18), (QUANTISED, 12)))
        lines.append(f"{title:26}{spread:>30}{statistics.median(r['load_s'] for r in sound):>10.1f}"
                     f"{max(r['peak_mib'] for r in sound):>11}{ratios}")
    return "\n".join(lines)


def settings_text(groups):
    seen = {}
    for rows in groups.values():
        for variant, program, settings in rows:
            seen[f"{variant} ({program}): {settings}"] = None
    return "\nSettings\n" + "\n".join("  " + line for line in sorted(seen))
