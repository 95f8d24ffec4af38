// What `headrace generate` can be told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/option_values.h"
#include "partition/topology.h"
#include "runtime/job/input_reader.h"

namespace headrace {

struct GenerateOptions {
  // Model
  std::string model;
  std::optional<std::string> tokenizer;
  std::optional<std::string> chat_template;
  std::string load_format = "auto";
  std::string load = "node";
  std::string dtype = "auto";
  std::string quantization = "none";
  std::string quantized_inputs = "int8";
  std::string kv_cache_dtype = "auto";
  std::optional<int> max_model_len;
  std::string generation_config = "auto";
  std::vector<std::string> served_model_names;

  // Files
  std::vector<std::string> inputs;
  std::string output;
  std::string error_file;
  std::string journal_dir;
  std::string shard;
  bool overwrite = false;
  bool retry_failed = false;
  std::string trace;
  std::int64_t seed = 0;

  // Layout: sizes of 0 follow from the number of ranks
  int pipeline_parallel_size = 0;
  int tensor_parallel_size = 1;
  int data_parallel_size = 1;
  std::vector<int> layers;
  int num_micro_batches = 0;  // 0: one a stage

  // Steps and memory
  int max_num_seqs = 256;
  int max_num_batched_tokens = 512;
  int block_size = 16;
  std::optional<ByteSize> kv_cache_memory_bytes;
  ByteSize swap_space;

  // This machine
  std::string device = "auto";
  bool share_device = false;
  double gpu_memory_utilization = 0.9;
  bool deterministic = false;
  std::string transport = "auto";
  std::string device_profile;  // file; empty for none
  int threads = 0;             // 0: this rank's share of the cores
  std::string backend = "cpu";
  std::string isa = "auto";
  double stall_timeout_s = 300.0;

  ParallelLayout layout() const {
    return {pipeline_parallel_size, tensor_parallel_size, data_parallel_size};
  }
};

/// Reads the arguments behind "generate". Returns the help text where that was asked for, else
/// nothing. Throws std::invalid_argument naming the option.
std::optional<std::string> parse_generate_options(const std::vector<std::string>& args,
                                                  GenerateOptions& options);

}  // namespace headrace
