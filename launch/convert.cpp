// `headrace convert`: a model into Headrace's HDF5 checkpoint, or out of it into a Hugging Face
// directory.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "launch/commands.h"
#include "launch/exit_codes.h"
#include "launch/model_text.h"
#include "launch/options.h"
#include "launch/version.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/convert_checkpoint.h"
#include "model/checkpoint/input_file.h"
#include "model/quantizer/calibrated_quantizer.h"
#include "model/quantizer/rounding_quantizer.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  std::string output;
  std::string to = "hdf5";
  std::string dtype = "auto";
  std::string quantize = "none";
  std::string calibration;
  int calibration_tokens = 8192;
  std::optional<double> max_layer_error;
  std::optional<int> stochastic_rounding;
  std::optional<int> threads;
  bool overwrite = false;
};

void add_quantizing(OptionSet& options, Options& o) {
  options.add_choice({.name = "quantize",
                      .help = "turn matrices into integers; generate needs no option to run them"},
                     o.quantize, {"none", "int8", "int4"});
  options.add({.name = "calibration",
               .value = "FILE",
               .help = "a text: integers are chosen for what each matrix meets as the model reads "
                       "it, and what they lose is told, matrix by matrix"},
              o.calibration);
  options.add({.name = "calibration-tokens", .value = "N", .help = "of the text's beginning"},
              o.calibration_tokens, {2, 1 << 24});
  options.add({.name = "max-layer-error",
               .value = "X",
               .help = "a matrix whose products are off by more (squared differences in parts of "
                       "their squares) keeps a wider type: int8, or its values"},
              o.max_layer_error, {0.0, 1.0});
  options.add({.name = "stochastic-rounding",
               .value = "SEED",
               .help = "up or down by chance, so that errors have no direction; otherwise to the "
                       "nearest"},
              o.stochastic_rounding, {0, std::numeric_limits<int>::max()});
  options.add({.name = "threads", .value = "N", .help = "that quantise; otherwise one a core"},
              o.threads, {1, 1024});
}

void check_quantizing(const OptionSet& options, const Options& o) {
  options.require_with("max-layer-error", "calibration");
  options.require_with("calibration-tokens", "calibration");
  if (o.stochastic_rounding && options.given("calibration")) {
    throw options.rejected("stochastic-rounding",
                           "only without --calibration, which makes one error good by the next");
  }
  for (const char* name : {"calibration", "stochastic-rounding", "threads"}) {
    if (o.quantize == "none" && options.given(name)) {
      throw options.rejected(name, "only with --quantize int8 or int4");
    }
  }
  if (o.to == "safetensors" && o.quantize != "none") {
    throw options.rejected("quantize", "only with --to hdf5");
  }
}

/// nullopt where only the help was asked for, and printed.
std::optional<Options> read_options(const std::vector<std::string>& args) {
  Options o;
  OptionSet options(
      {.command = "convert",
       .synopsis = "--model MODEL --output PATH",
       .summary =
           "Writes a model as one HDF5 file that every number of ranks reads in long pieces, "
           "with tokenizer,\nchat template and checksums inside; or such a file back as a "
           "Hugging Face directory. What was\nnot finished is not there under its name."});
  options.add({.name = "model",
               .value = "MODEL",
               .help = "Hugging Face directory, org/name in the local cache, .gguf or .h5 file",
               .required = true},
              o.model);
  options.add({.name = "output", .value = "PATH", .help = "what to write", .required = true},
              o.output);
  options.add_choice({.name = "to", .help = "a .h5 file, or a directory with model.safetensors"},
                     o.to, {"hdf5", "safetensors"});
  options.add_choice(
      {.name = "dtype",
       .help = "type of all matrices; auto keeps stored values and gives quantised ones the "
               "type that generate --dtype auto computes with"},
      o.dtype, {"auto", "float32", "bfloat16"});
  add_quantizing(options, o);
  options.add({.name = "overwrite", .help = "replace the file"}, o.overwrite);
  if (!options.parse(args)) {
    std::cout << options.help();
    return std::nullopt;
  }
  if (o.to == "safetensors" && options.given("dtype")) {
    throw options.rejected("dtype", "only with --to hdf5; --to safetensors keeps stored values");
  }
  check_quantizing(options, o);
  if (o.to == "safetensors" && o.overwrite) {
    throw std::invalid_argument("--overwrite is only for --to hdf5; remove the directory yourself");
  }
  return o;
}

void check_output(const Options& o) {
  const fs::path output(o.output);
  if (fs::is_directory(output) || (fs::exists(output) && !o.overwrite)) {
    throw std::invalid_argument(fmt::format("--output \"{}\": exists already{}", o.output,
                                            o.to == "hdf5" ? "; --overwrite replaces a file" : ""));
  }
  std::error_code error;
  if (fs::equivalent(output, resolve_model_path(o.model), error)) {
    throw std::invalid_argument(fmt::format("--output \"{}\": is the model itself", o.output));
  }
}

std::optional<DType> wanted_dtype(const Options& o) {
  if (o.dtype == "auto") return std::nullopt;
  return o.dtype == "float32" ? DType::kFloat32 : DType::kBFloat16;
}

std::vector<TokenId> calibration_tokens(const Options& o) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
  const ModelText text = load_model_text({.model = o.model, .chat_template = std::nullopt});
  std::vector<TokenId> tokens = text.tokenizer->encode(read_text(o.calibration, kMostBytes));
  tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(o.calibration_tokens)));
  return tokens;
}

/// Null where nothing is quantised.
std::unique_ptr<MatrixQuantizer> make_quantizer(const Options& o, Checkpoint& model,
                                                ThreadPool& pool) {
  if (o.quantize == "none") return nullptr;
  require_plain(model);
  const Quantization wanted = o.quantize == "int8" ? Quantization::kInt8 : Quantization::kInt4;
  if (o.calibration.empty()) {
    std::optional<std::uint64_t> seed;
    if (o.stochastic_rounding) seed = static_cast<std::uint64_t>(*o.stochastic_rounding);
    return make_rounding_quantizer(model, pool, {.wanted = wanted, .stochastic_seed = seed});
  }
  const fs::path output(o.output);
  return make_calibrated_quantizer(
      model, pool,
      {.wanted = wanted,
       .max_layer_error = o.max_layer_error,
       .tokens = calibration_tokens(o),
       .directory = output.has_parent_path() ? output.parent_path() : fs::path(".")},
      [](std::string_view lines) { std::cout << lines << std::flush; });
}

std::string model_name(const std::string& model) {
  fs::path path(model);
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

/// A line every few seconds, and one at the end.
class Report {
 public:
  void operator()(std::uint64_t done, std::uint64_t total) {
    done_ = done;
    constexpr std::chrono::seconds kInterval{5};
    if (Clock::now() - last_ < kInterval) return;
    last_ = Clock::now();
    std::cerr << fmt::format("{:3.0f} %, {:.2f} of {:.2f} GB, {:.2f} GB/s\n",
                             100.0 * static_cast<double>(done) / static_cast<double>(total),
                             gigabytes(done), gigabytes(total), rate());
  }

  std::string summary() const {
    return fmt::format("{:.3f} GB in {:.1f} s, {:.2f} GB/s", gigabytes(done_), seconds(), rate());
  }

 private:
  static double gigabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double rate() const { return gigabytes(done_) / std::max(seconds(), 1e-9); }

  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  std::uint64_t done_ = 0;
};

}  // namespace

int run_convert(const std::vector<std::string>& args) {
  const std::optional<Options> o = read_options(args);
  if (!o) return kExitSuccess;
  check_output(*o);
  const std::unique_ptr<Checkpoint> model = Checkpoint::open(o->model);
  Report report;
  const ConvertProgress progress = [&](std::uint64_t done, std::uint64_t total) {
    report(done, total);
  };
  if (o->to == "hdf5") {
    const std::unique_ptr<ThreadPool> pool = make_thread_pool(
        o->threads.value_or(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))));
    const std::unique_ptr<MatrixQuantizer> quantizer = make_quantizer(*o, *model, *pool);
    convert_to_hdf5(*model, o->output,
                    {.dtype = wanted_dtype(*o),
                     .quantizer = quantizer.get(),
                     .source = model_name(o->model),
                     .program = program_version()},
                    progress);
  } else {
    convert_to_hugging_face(*model, o->output, progress);
  }
  std::cout << fmt::format("{}: {} tensors, {}\n", o->output, model->tensors().size(),
                           report.summary());
  if (o->to == "safetensors" && model->companion_files().front().name != "config.json") {
    std::cout << "config.json is made from the GGUF metadata; no tokenizer is written: take the "
                 "original model's, or give generate --tokenizer the GGUF file\n";
  }
  return kExitSuccess;
}

}  // namespace headrace
