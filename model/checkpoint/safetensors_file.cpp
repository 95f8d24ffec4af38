#include "model/checkpoint/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"

static_assert(std::endian::native == std::endian::little,
              "lengths are read without swapping bytes");

namespace headrace {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kMaxDimensions = 8;

struct ElementType {
  std::string_view name;
  std::uint64_t bits;
};

// Every type that safetensors defines: a file may be sound and still hold what no decoder reads.
constexpr std::array kElementTypes{
    ElementType{"BOOL", 8},    ElementType{"U8", 8},      ElementType{"I8", 8},
    ElementType{"F8_E5M2", 8}, ElementType{"F8_E4M3", 8}, ElementType{"F8_E8M0", 8},
    ElementType{"F4", 4},      ElementType{"F6_E2M3", 6}, ElementType{"F6_E3M2", 6},
    ElementType{"I16", 16},    ElementType{"U16", 16},    ElementType{"F16", 16},
    ElementType{"BF16", 16},   ElementType{"I32", 32},    ElementType{"U32", 32},
    ElementType{"F32", 32},    ElementType{"C64", 64},    ElementType{"F64", 64},
    ElementType{"I64", 64},    ElementType{"U64", 64},
};

[[noreturn]] void fail(const InputFile& file, const std::string& what) {
  throw std::invalid_argument(fmt::format("{}: {}", file.path().string(), what));
}

// Takes the header's JSON event by event: nothing but the table itself is kept, whatever the text
// holds, and whatever the format does not allow ends the parse.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(const InputFile& file) : file_(file) {}

  std::vector<SafetensorsEntry> take() { return std::move(entries_); }

  bool start_object(std::size_t /*size*/) override {
    if (depth_ == 0) return ++depth_ == 1;
    if (depth_ > 1) reject("an object");
    metadata_ = key_ == "__metadata__";
    if (!metadata_) begin_entry();
    depth_ = 2;
    return true;
  }

  bool end_object() override {
    if (depth_ == 2 && !metadata_) end_entry();
    --depth_;
    return true;
  }

  bool key(string_t& text) override {
    if (depth_ == 1 && !names_.insert(text).second) {
      fail(file_, fmt::format("tensor {} appears twice in the header", in_quotes(text)));
    }
    (depth_ == 1 ? key_ : field_) = std::move(text);
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (depth_ != 2 || metadata_ || list_ != nullptr) reject("a list");
    if (field_ == "shape" && !shape_) {
      list_ = &shape_.emplace();
    } else if (field_ == "data_offsets" && !offsets_) {
      list_ = &offsets_.emplace();
    } else {
      reject("a list");
    }
    return true;
  }

  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (list_ == nullptr) reject("a number");
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      reject(fmt::format("the number {}", number));
    }
    if (list_->size() == kMaxDimensions) {
      reject(fmt::format("a list of more than {} numbers", kMaxDimensions));
    }
    list_->push_back(static_cast<std::int64_t>(number));
    return true;
  }

  bool string(string_t& text) override {
    if (depth_ == 2 && metadata_) return true;
    if (depth_ != 2 || list_ != nullptr || field_ != "dtype" || !dtype_.empty()) reject("a text");
    dtype_ = std::move(text);
    return true;
  }

  bool null() override { reject("null"); }
  bool boolean(bool /*value*/) override { reject("a boolean"); }
  bool number_integer(number_integer_t number) override {
    reject(fmt::format("the number {}", number));
  }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    reject("a fractional number");
  }
  bool binary(binary_t& /*value*/) override { reject("binary data"); }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    fail(file_, fmt::format("the header is not valid JSON at its byte {}", position));
  }

 private:
  [[noreturn]] void reject(const std::string& what) const {
    fail(file_, fmt::format("the header's entry {} has {} where {{\"dtype\", \"shape\", "
                            "\"data_offsets\"}} should stand",
                            in_quotes(key_), what));
  }

  void begin_entry() {
    if (!is_plain_name(key_) || key_.empty()) {
      fail(file_, fmt::format("tensor name {} is not plain text", in_quotes(key_)));
    }
    dtype_.clear();
    shape_.reset();
    offsets_.reset();
    field_.clear();
  }

  void end_entry() {
    if (dtype_.empty() || !shape_ || !offsets_ || offsets_->size() != 2) {
      fail(file_, fmt::format("the header's entry {} lacks dtype, shape or two data_offsets",
                              in_quotes(key_)));
    }
    const std::int64_t begin = offsets_->front();
    const std::int64_t end = offsets_->back();
    if (end < begin) {
      fail(file_, fmt::format("tensor {} has the data_offsets [{}, {}], which run backwards",
                              in_quotes(key_), begin, end));
    }
    entries_.push_back({key_, dtype_, *shape_, static_cast<std::uint64_t>(begin),
                        static_cast<std::uint64_t>(end - begin)});
  }

  const InputFile& file_;
  std::vector<SafetensorsEntry> entries_;
  std::set<std::string, std::less<>> names_;
  int depth_ = 0;          // objects that are open
  bool metadata_ = false;  // inside "__metadata__"
  std::string key_;        // of the entry
  std::string field_;      // inside the entry
  std::string dtype_;
  std::optional<std::vector<std::int64_t>> shape_;
  std::optional<std::vector<std::int64_t>> offsets_;
  std::vector<std::int64_t>* list_ = nullptr;  // the one that is open
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Bytes that dtype and shape imply. Throws where they overflow or are no whole number.
std::uint64_t implied_bytes(const InputFile& file, const SafetensorsEntry& entry) {
  const auto* type = std::find_if(kElementTypes.begin(), kElementTypes.end(),
                                  [&](const ElementType& t) { return t.name == entry.dtype; });
  if (type == kElementTypes.end()) {
    fail(file, fmt::format("tensor {} has the unknown dtype {}", in_quotes(entry.name),
                           in_quotes(entry.dtype)));
  }
  std::uint64_t bits = type->bits;
  for (const std::int64_t length : entry.shape) {
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(length), &bits)) {
      fail(file, fmt::format("the size of tensor {} with shape {} overflows", in_quotes(entry.name),
                             shape_text(entry.shape)));
    }
  }
  if (bits % 8 != 0) {
    fail(file, fmt::format("tensor {} ends inside a byte", in_quotes(entry.name)));
  }
  return bits / 8;
}

// Checks that every tensor lies in the file with the size its shape implies, and none on another.
void check_extents(const InputFile& file, std::vector<SafetensorsEntry>& entries,
                   std::uint64_t header_bytes) {
  const std::uint64_t data_bytes = file.size() - header_bytes;
  std::vector<const SafetensorsEntry*> order;
  order.reserve(entries.size());
  for (SafetensorsEntry& entry : entries) {
    const std::uint64_t implied = implied_bytes(file, entry);
    if (implied != entry.bytes) {
      fail(file,
           fmt::format("tensor {} has {} bytes, but {} of shape {} takes {}", in_quotes(entry.name),
                       entry.bytes, entry.dtype, shape_text(entry.shape), implied));
    }
    if (entry.offset > data_bytes || entry.bytes > data_bytes - entry.offset) {
      fail(file, fmt::format("tensor {} ends at byte {}, but the file has only {}: it is truncated "
                             "or damaged",
                             in_quotes(entry.name), header_bytes + entry.offset + entry.bytes,
                             file.size()));
    }
    entry.offset += header_bytes;
    order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  std::uint64_t end = header_bytes;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i]->offset < end) {
      fail(file, fmt::format("tensors {} and {} overlap", in_quotes(order[i - 1]->name),
                             in_quotes(order[i]->name)));
    }
    if (order[i]->offset > end) {
      fail(file, fmt::format("{} bytes before tensor {} belong to no tensor",
                             order[i]->offset - end, in_quotes(order[i]->name)));
    }
    end = order[i]->offset + order[i]->bytes;
  }
  if (end != file.size()) {
    fail(file,
         fmt::format("{} bytes after the last tensor belong to no tensor", file.size() - end));
  }
}

// The length of the header's JSON, checked against the file.
std::uint64_t json_bytes(const InputFile& file) {
  const std::string what = appearance(file);
  const bool plausible = what.empty() || what == kSafetensorsAppearance;
  if (!plausible) fail(file, "is not a safetensors file; it looks like " + what);
  if (file.size() < 8) {
    fail(file, fmt::format("is not a safetensors file; it has only {} bytes", file.size()));
  }
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeaderBytes) {
    fail(file,
         fmt::format("claims a header of {} bytes; safetensors allows {}: it is damaged or no "
                     "safetensors file",
                     length, kMaxHeaderBytes));
  }
  if (length > file.size() - 8) {
    fail(file, fmt::format("claims a header of {} bytes but has only {} bytes: it is truncated or "
                           "damaged",
                           length, file.size()));
  }
  return length;
}

}  // namespace

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  const std::uint64_t length = json_bytes(file);
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{')) fail(file, "the header does not start with '{'");
  // The parser would take a NUL for the end and not look at what follows.
  const std::size_t nul = text.find('\0');
  if (nul != std::string::npos) {
    fail(file, fmt::format("the header is not valid JSON at its byte {}", nul + 1));
  }
  HeaderHandler handler(file);
  nlohmann::json::sax_parse(text, &handler);
  SafetensorsHeader header{handler.take(), 8 + length};
  check_extents(file, header.tensors, header.header_bytes);
  return header;
}

}  // namespace headrace
