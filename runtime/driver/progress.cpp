#include "runtime/driver/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace headrace {
namespace {

constexpr double kTerminalInterval_s = 0.5;
constexpr double kLogInterval_s = 5.0;
constexpr int kBarWidth = 20;

double busy_percent(const StageTimes& from, const StageTimes& to) {
  const std::int64_t busy = to.busy_ns - from.busy_ns;
  const std::int64_t all = busy + to.wait_ns - from.wait_ns + to.transfer_ns - from.transfer_ns;
  return 100.0 * static_cast<double>(busy) / static_cast<double>(std::max<std::int64_t>(all, 1));
}

// The part of the job that is done, by the bytes of input that lie behind finished lines; negative
// where the size of the input is unknown.
double fraction_done(const HostCounts& host) {
  const double lines = static_cast<double>(host.job.num_answered + host.job.num_failed);
  const double read_lines = lines + static_cast<double>(host.num_live_lines);
  if (read_lines == 0) return host.input_ended ? 1.0 : 0.0;
  double read = 1.0;
  if (!host.input_ended) {
    if (host.bytes_total == 0) return -1.0;
    read = static_cast<double>(host.bytes_read) / static_cast<double>(host.bytes_total);
  }
  return std::clamp(read * lines / read_lines, 0.0, 1.0);
}

std::string bar(double fraction) {
  const int filled = static_cast<int>(std::lround(fraction * kBarWidth));
  return "[" + std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(kBarWidth - filled), '.') + "]";
}

// More stages than this are summed up, so that the line stays one.
constexpr std::size_t kMostStages = 8;

StageTimes times_of(const ProgressView& view, std::size_t replica, std::size_t stage) {
  if (replica >= view.replicas.size() || stage >= view.replicas[replica].times.size()) return {};
  return view.replicas[replica].times[stage];
}

// The shares of every stage, replicas apart: "0:93/5/2 1:91/8/1 | 0:90/9/1 1:92/7/1".
std::string all_shares(const ProgressView& view, const ProgressView& before) {
  std::string text;
  std::size_t num_stages = 0;
  double least = 100.0;
  double most = 0.0;
  for (std::size_t r = 0; r < view.replicas.size(); ++r) {
    if (r > 0) text += " |";
    for (std::size_t s = 0; s < view.replicas[r].times.size(); ++s, ++num_stages) {
      const StageTimes from = times_of(before, r, s);
      const StageTimes to = times_of(view, r, s);
      text += " " + stage_shares(static_cast<int>(s), from, to);
      const double busy = busy_percent(from, to);
      least = std::min(least, busy);
      most = std::max(most, busy);
    }
  }
  if (num_stages <= kMostStages) return ", busy/wait/transfer %" + text;
  return fmt::format(", {} stages busy {:.0f} to {:.0f} %", num_stages, least, most);
}

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string stage_shares(int stage, const StageTimes& from, const StageTimes& to) {
  const double busy = static_cast<double>(to.busy_ns - from.busy_ns);
  const double wait = static_cast<double>(to.wait_ns - from.wait_ns);
  const double transfer = static_cast<double>(to.transfer_ns - from.transfer_ns);
  const double all = std::max(busy + wait + transfer, 1.0);
  return fmt::format("{}:{:.0f}/{:.0f}/{:.0f}", stage, 100 * busy / all, 100 * wait / all,
                     100 * transfer / all);
}

std::string progress_line(const ProgressView& view, const ProgressView& before) {
  const HostCounts& host = view.host;
  const std::int64_t finished = host.job.num_answered + host.job.num_failed;
  const double interval_s = std::max(view.elapsed_s - before.elapsed_s, 1e-3);
  const auto rate = [&](std::int64_t now, std::int64_t then) {
    return static_cast<double>(now - then) / interval_s;
  };
  const double fraction = fraction_done(host);
  std::string line =
      fraction >= 0 ? fmt::format("{} {:3.0f}% ", bar(fraction), 100 * fraction) : "";
  line += fmt::format("{} done", finished);
  if (host.job.num_failed > 0) line += fmt::format(" ({} failed)", host.job.num_failed);
  int num_running = 0;
  int num_free_blocks = 0;
  for (const ReplicaView& replica : view.replicas) {
    num_running += replica.scheduler.num_running;
    num_free_blocks += replica.scheduler.num_free_blocks;
  }
  line += fmt::format(", {} running, in {:.0f} out {:.0f} tok/s", num_running,
                      rate(host.num_run_prompt_tokens, before.host.num_run_prompt_tokens),
                      rate(host.num_run_tokens, before.host.num_run_tokens));
  const int num_blocks = view.num_blocks * static_cast<int>(view.replicas.size());
  if (num_blocks > 0) {
    line += fmt::format(", KV {:.0f}%", 100.0 * (num_blocks - num_free_blocks) / num_blocks);
  }
  if (fraction > 0 && fraction < 1 && host.num_run_lines > 0) {
    // The lines of earlier runs took none of this run's time.
    const double run_share =
        static_cast<double>(host.num_run_lines) / static_cast<double>(finished);
    const double done_here = fraction * run_share;
    line += ", ETA " + duration_text(view.elapsed_s * (1 - fraction) / std::max(done_here, 1e-9));
  }
  return line + all_shares(view, before);
}

Progress::Progress(std::FILE* stream)
    : stream_(stream),
      terminal_(isatty(fileno(stream)) != 0),
      next_s_(terminal_ ? kTerminalInterval_s : kLogInterval_s) {}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (!terminal_ || before_.elapsed_s == 0.0) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
}

void Progress::show(const ProgressView& view) {
  const std::string line = progress_line(view, before_);
  if (terminal_) {
    fmt::print(stream_, "\r\x1b[K{}", line);
  } else {
    fmt::print(stream_, "[{:>6}] {}\n", duration_text(view.elapsed_s), line);
  }
  std::fflush(stream_);
  before_ = view;
  next_s_ = view.elapsed_s + (terminal_ ? kTerminalInterval_s : kLogInterval_s);
}

}  // namespace headrace
