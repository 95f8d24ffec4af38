// Sound files with random damage: whatever the damage, opening ends soon, in a model or in one
// line, and takes no more memory than the file's size justifies. The seeds are fixed;
// HEADRACE_MUTATIONS sets another number of mutations of each kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "tests/model/checkpoint/model_files.h"

namespace {

// The largest single allocation since the last reset, counted by the operators below.
std::atomic<std::size_t> largest_allocation{0};

void* counted_allocation(std::size_t bytes) {
  if (bytes > largest_allocation.load(std::memory_order_relaxed)) largest_allocation = bytes;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT(cppcoreguidelines-no-malloc)
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted_allocation(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted_allocation(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}  // NOLINT
void operator delete[](void* memory) noexcept {
  std::free(memory);
}  // NOLINT
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}  // NOLINT
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}  // NOLINT

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

// What a piece of the readers' buffers takes, beside what the file's size justifies: 4 MiB for a
// read.
constexpr std::size_t kBufferBytes = std::size_t{5} << 20;

int num_mutations() {
  const char* number = std::getenv("HEADRACE_MUTATIONS");
  return number == nullptr ? 20000 : std::atoi(number);
}

// Numbers that readers stumble over.
constexpr std::uint64_t kInteresting[] = {0,
                                          1,
                                          0x7f,
                                          0x80,
                                          0xff,
                                          0x7fff,
                                          0xffff,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0xffffffffffffffff,
                                          0xfffffffffffffff8};

// Changes a few bytes of the first `range` ones, or cuts, repeats or removes some.
std::string mutate(std::string bytes, std::size_t range, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(limit, 1));
  };
  const std::size_t changes = 1 + below(4);
  for (std::size_t change = 0; change < changes; ++change) {
    range = std::min(range, bytes.size());
    const std::size_t at = below(range);
    switch (below(8)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2: {
        const std::string number = bytes_of(kInteresting[below(std::size(kInteresting))]);
        const std::size_t width = std::min(std::size_t{1} << below(4), bytes.size() - at);
        bytes.replace(at, width, number, 0, width);
        break;
      }
      case 3:
        bytes.resize(1 + below(bytes.size()));
        break;
      case 4:
        bytes.erase(at, 1 + below(16));
        break;
      case 5:
        bytes.insert(at, bytes.substr(below(range), 1 + below(64)));
        break;
      case 6:
        bytes.insert(at, std::to_string(kInteresting[below(std::size(kInteresting))]));
        break;
      default: {
        static const std::string kMarks("{}[]\",:\\-0919.eE\n\xff\0", 19);
        bytes[at] = kMarks[below(kMarks.size())];
        break;
      }
    }
    if (bytes.empty()) bytes = "x";
  }
  return bytes;
}

struct Outcome {
  int accepted = 0;
  int refused = 0;
};

// Opens, and where that succeeds reads everything.
bool open_and_read(const std::filesystem::path& model) {
  try {
    const auto checkpoint = Checkpoint::open(model);
    rope_inverse_frequencies(checkpoint->config().rope);
    std::vector<float> out;
    for (const TensorInfo& info : checkpoint->tensors()) {
      out.resize(static_cast<std::size_t>(info.rows * info.cols));
      checkpoint->read_rows(info.name, 0, info.rows, out.data());
    }
    return true;
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    EXPECT_LT(message.size(), 1000U) << message;
    EXPECT_EQ(message.find_first_of(std::string("\n\0", 2)), std::string::npos) << message;
    return false;
  }
}

Outcome mutate_and_open(const std::filesystem::path& model, const std::filesystem::path& file,
                        std::size_t range, std::uint64_t seed) {
  const std::string sound = read_file(file);
  std::mt19937_64 random(seed);
  Outcome outcome;
  for (int i = 0; i < num_mutations() && !testing::Test::HasFailure(); ++i) {
    const std::string damaged = mutate(sound, range, random);
    write_file(file, damaged);
    largest_allocation = 0;
    try {
      ++(open_and_read(model) ? outcome.accepted : outcome.refused);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutation " << i << " ended in " << error.what();
    }
    EXPECT_LT(largest_allocation, kBufferBytes + 8 * damaged.size()) << "mutation " << i;
  }
  write_file(file, sound);
  return outcome;
}

// Most damage to a header must be noticed; some is harmless (a space, a byte of a number's width).
void expect_mostly_refused(const Outcome& outcome) {
  EXPECT_EQ(outcome.accepted + outcome.refused, num_mutations());
  EXPECT_GT(outcome.refused, num_mutations() / 2);
}

constexpr TinyLlama kSmallest{.num_layers = 1,
                              .hidden_size = 8,
                              .num_heads = 2,
                              .num_kv_heads = 1,
                              .intermediate_size = 8,
                              .vocab_size = 8};

TEST(MutatedFiles, SafetensorsHeadersNeverCrashTheReader) {
  const TempDirectory directory;
  write_hugging_face(directory.path(), kSmallest);
  const std::size_t header = 8 + safetensors_header(tiny_tensors(kSmallest)).size();
  expect_mostly_refused(
      mutate_and_open(directory.path(), directory.path() / "model.safetensors", header, 1));
}

TEST(MutatedFiles, GgufHeadersNeverCrashTheReader) {
  const TempDirectory directory;
  const auto path = directory.path() / "tiny.gguf";
  GgufWriter writer = tiny_gguf(kSmallest);
  writer.set_strings("tokenizer.ggml.tokens", {"a", "b", "c"})
      .set_i32s("tokenizer.ggml.token_type", {1, 2, 3});
  writer.set_f32s("tokenizer.ggml.scores", {0.0F, 1.0F})
      .set_bool("tokenizer.ggml.add_bos_token", true);
  write_file(path, writer.bytes());
  std::size_t data = 0;
  for (const FileTensor& tensor : writer.tensors()) data += (tensor.data.size() + 31) / 32 * 32;
  const Outcome outcome = mutate_and_open(path, path, std::filesystem::file_size(path) - data, 2);
  EXPECT_EQ(outcome.accepted + outcome.refused, num_mutations());
  EXPECT_GT(outcome.refused, num_mutations() / 3) << "names and values of unused keys may change";
}

TEST(MutatedFiles, ConfigsNeverCrashTheReader) {
  const TempDirectory directory;
  write_hugging_face(directory.path(), kSmallest);
  ConfigFields fields = tiny_config(kSmallest);
  fields["rope_scaling"] =
      R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})";
  fields["eos_token_id"] = "[2, 3]";
  write_file(directory.path() / "config.json", config_text(fields));
  expect_mostly_refused(
      mutate_and_open(directory.path(), directory.path() / "config.json", std::string::npos, 3));
}

TEST(MutatedFiles, IndexesNeverCrashTheReader) {
  const TempDirectory directory;
  write_hugging_face(directory.path(), kSmallest);
  std::filesystem::rename(directory.path() / "model.safetensors",
                          directory.path() / "all.safetensors");
  std::string map;
  for (const FileTensor& tensor : tiny_tensors(kSmallest))
    map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"all.safetensors\"";
  const auto index = directory.path() / "model.safetensors.index.json";
  write_file(index, "{\"weight_map\":{" + map + "}}");
  expect_mostly_refused(mutate_and_open(directory.path(), index, std::string::npos, 4));
}

}  // namespace
}  // namespace headrace
