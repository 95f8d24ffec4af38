// `headrace bench`: how fast this machine is with a model's operators, and where the time of a job
// goes.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "kernels/cuda_backend.h"
#include "launch/commands.h"
#include "launch/device_profile.h"
#include "launch/exit_codes.h"
#include "launch/gpu_bench.h"
#include "launch/kernel_bench.h"
#include "launch/model_bench.h"
#include "launch/options.h"
#include "model/checkpoint/dummy_checkpoint.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

struct Options {
  bool kernels = false;
  bool json = false;
  std::string model;
  KernelBenchSettings kernel;
  std::string device = "auto";
  std::string device_profile;
  std::string isa = "auto";
  int threads = 1;
  ModelBenchSettings job;
};

constexpr std::int64_t kMaxCount = 1'000'000;

void declare_kernels(OptionSet& set, Options& o) {
  set.group("Operators (--kernels)");
  set.add(
      {.name = "kernels",
       .help = "every operator, type and shape of MODEL [SmolLM2-135M] beside the machine's peak"},
      o.kernels);
  set.add_choice({.name = "part", .value = "P", .help = "all, products, trees, attention or rows"},
                 o.kernel.part, kernel_bench_parts());
  set.add_choice(
      {.name = "type",
       .value = "T",
       .help = "all, bfloat16, float32, float16 (GPU), int8, int4, w8a16 or w4a16 (CPU)"},
      o.kernel.type, kernel_bench_types());
  set.add_choice({.name = "isa", .value = "I", .help = kIsaHelp}, o.isa, isa_choices());
  set.add({.name = "threads", .value = "N", .help = "compute threads"}, o.threads, {1, 1024});
  set.add_choice(
      {.name = "device", .value = "D", .help = "auto (a GPU, where there is one), cpu or cuda"},
      o.device, {"auto", "cpu", "cuda"});
  set.add({.name = "device-profile",
           .value = "FILE",
           .help = "algorithms of products on GPUs, kept from run to run"},
          o.device_profile);
  set.add({.name = "max-rows", .value = "N", .help = "larger numbers of rows are left out"},
          o.kernel.max_rows, {1, kMaxCount});
}

void declare_job(OptionSet& set, Options& o) {
  set.group("A short job (without --kernels)");
  set.add({.name = "requests", .value = "N", .help = "how many"}, o.job.requests, {1, kMaxCount});
  set.add({.name = "prompt-tokens", .value = "N", .help = "of each request"}, o.job.prompt_tokens,
          {1, kMaxCount});
  set.add({.name = "output-tokens", .value = "N", .help = "of each request"}, o.job.output_tokens,
          {1, kMaxCount});
}

/// nullopt where only the help was asked for, and printed. What follows -- goes to generate.
std::optional<Options> read_options(const std::vector<std::string>& args) {
  Options o;
  const auto end = std::find(args.begin(), args.end(), "--");
  if (end != args.end()) o.job.generate_options.assign(end + 1, args.end());
  OptionSet set({.command = "bench",
                 .synopsis = "--kernels | --model MODEL [-- options of generate]",
                 .summary = "Measures the operators of a model, or a short job: where each rank's "
                            "time goes, in terms that\nadd up to the wall time. A job may be "
                            "started with mpirun or srun."});
  set.add({.name = "model", .value = "MODEL", .help = "directory, org/name, .gguf or .h5 file"},
          o.model);
  set.add({.name = "json", .help = "print one JSON object instead of a table"}, o.json);
  declare_kernels(set, o);
  declare_job(set, o);
  if (!set.parse({args.begin(), end})) {
    std::cout << set.help();
    return std::nullopt;
  }
  if (!o.kernels && o.model.empty()) {
    throw std::invalid_argument("bench: --kernels or --model MODEL is needed");
  }
  for (const char* name :
       {"part", "type", "isa", "threads", "device", "device-profile", "max-rows"}) {
    if (!o.kernels && set.given(name)) {
      throw set.rejected(name, "only with --kernels; options of the job go behind --");
    }
  }
  if (o.kernels && !o.job.generate_options.empty()) {
    throw std::invalid_argument("bench: options behind -- are the job's; --kernels runs none");
  }
  o.job.model = o.model;
  o.job.json = o.json;
  return o;
}

std::string rate_line(const KernelRate& rate) {
  std::string line = fmt::format("{:<9} {:<34} {:>5} {:>11.2f}", rate.type, rate.kernel, rate.rows,
                                 1e6 * rate.seconds);
  line += rate.gflops > 0 ? fmt::format("{:>9.1f}", rate.gflops) : fmt::format("{:>9}", "-");
  line += fmt::format("{:>8.1f}", rate.gigabytes);
  line += rate.bound_percent > 0 ? fmt::format("{:>8.0f} %", rate.bound_percent)
                                 : fmt::format("{:>10}", "-");
  if (rate.host_seconds) line += fmt::format("{:>11.2f}", 1e6 * *rate.host_seconds);
  if (rate.slower_than_one_chain_percent) {
    line += fmt::format("  {:+.1f} % beside one chain", *rate.slower_than_one_chain_percent);
  }
  return line;
}

ordered_json rate_json(const KernelRate& rate) {
  ordered_json json = {{"part", rate.part},
                       {"type", rate.type},
                       {"kernel", rate.kernel},
                       {"rows", rate.rows},
                       {"seconds", rate.seconds},
                       {"gflops_per_s", rate.gflops},
                       {"gigabytes_per_s", rate.gigabytes},
                       {"bound_percent", rate.bound_percent}};
  if (rate.host_seconds) json["host_seconds"] = *rate.host_seconds;
  if (rate.slower_than_one_chain_percent) {
    json["slower_than_one_chain_percent"] = *rate.slower_than_one_chain_percent;
  }
  return json;
}

bool takes_gpu(const Options& o) {
  return o.device == "cuda" || (o.device == "auto" && !cuda_devices().devices.empty());
}

ordered_json device_json(const Options& o, const BenchDevice& device) {
  const MachinePeaks& peaks = device.peaks;
  ordered_json json = {{"device", device.name}};
  if (!takes_gpu(o)) {
    json["isa"] = o.isa;
    json["threads"] = o.threads;
  }
  json["peak_gflops"] = {{"float32", peaks.float32},
                         {"bfloat16", peaks.bfloat16},
                         {"float16", peaks.float16},
                         {"int8", peaks.int8}};
  json["memory_gigabytes_per_s"] = peaks.memory_gigabytes;
  json["kernels"] = ordered_json::array();
  return json;
}

std::string device_lines(const Options& o, const BenchDevice& device) {
  const MachinePeaks& peaks = device.peaks;
  std::string peak;
  for (const auto& [name, gflops] : {std::pair{"float32", peaks.float32},
                                     {"bfloat16", peaks.bfloat16},
                                     {"float16", peaks.float16},
                                     {"int8", peaks.int8}}) {
    if (gflops > 0.0) peak += fmt::format("{}{:.0f} ({})", peak.empty() ? "" : ", ", gflops, name);
  }
  const std::string threads =
      takes_gpu(o) ? "" : fmt::format(" {} thread{};", o.threads, o.threads == 1 ? "" : "s");
  return fmt::format(
      "{};{} peak {} GFLOP/s; memory {:.1f} GB/s\n{:<9} {:<34} {:>5} {:>11}{:>9}{:>8}{:>10}{}\n",
      device.name, threads, peak, peaks.memory_gigabytes, "type", "operator", "rows", "us",
      "GFLOP/s", "GB/s", "of bound", takes_gpu(o) ? "    host us" : "");
}

// What the file of --device-profile knows of the GPU that is measured; nothing without one.
std::optional<GemmProfile> known_products(const Options& o) {
  if (o.device_profile.empty()) return std::nullopt;
  if (!takes_gpu(o)) {
    throw std::invalid_argument("bench: --device-profile is for GPUs, and a CPU is measured" +
                                (o.device == "cpu" ? "" : ": " + cuda_devices().why_none));
  }
  DeviceProfile profile =
      parse_device_profile(read_device_profile(o.device_profile), o.device_profile);
  const std::vector<CudaDevice> gpus = cuda_devices().devices;
  if (gpus.empty()) return std::nullopt;  // which the bench will say
  return GemmProfile(std::move(profile[profiled_device(gpus.front())]));
}

void keep_products(const Options& o, const GemmProfile& profile) {
  std::cerr << fmt::format("{}: {} products taken, {} tried out\n", o.device_profile,
                           profile.num_taken(), profile.found().size());
  if (profile.found().empty()) return;
  add_to_device_profile(o.device_profile,
                        {{profiled_device(cuda_devices().devices.front()), profile.found()}});
}

int run_kernel_bench(const Options& o) {
  const ModelConfig model = o.model.empty() ? default_bench_model() : open_dummy(o.model)->config();
  const auto pool = make_thread_pool(o.threads);
  std::optional<GemmProfile> profile = known_products(o);
  const BenchDevice device =
      takes_gpu(o) ? bench_gpu(profile ? &*profile : nullptr) : bench_cpu(*pool, o.isa);
  ordered_json json = device_json(o, device);
  if (!o.json) std::cout << device_lines(o, device) << std::flush;
  bench_kernels(model, o.kernel, device, [&](const KernelRate& rate) {
    if (o.json) {
      json["kernels"].push_back(rate_json(rate));
    } else {
      std::cout << rate_line(rate) << std::endl;
    }
  });
  if (profile) keep_products(o, *profile);
  if (o.json) std::cout << json.dump(2) << '\n';
  return kExitSuccess;
}

}  // namespace

// A job runs where nothing catches (generate.h).
int run_bench(const std::vector<std::string>& args) {
  std::optional<Options> o;
  try {
    o = read_options(args);
    if (!o) return kExitSuccess;
    if (o->kernels) return run_kernel_bench(*o);
  } catch (const std::invalid_argument& mistake) {
    std::cerr << "headrace: " << mistake.what() << '\n';
    return kExitUsage;
  } catch (const std::exception& failure) {
    std::cerr << "headrace: " << failure.what() << '\n';
    return kExitUnexpected;
  }
  return run_model_bench(o->job);
}

}  // namespace headrace
