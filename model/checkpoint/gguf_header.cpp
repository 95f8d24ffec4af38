#include "model/checkpoint/gguf_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <type_traits>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/ggml_types.h"

static_assert(std::endian::native == std::endian::little, "GGUF is read without swapping bytes");

namespace headrace {
namespace {

// Tokenizers of a million entries make headers of some 50 MB. A value takes at most 32 bytes of
// memory for the 8 (a string) it has at least in the file, so a header that lies is bounded too.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMaxNameBytes = 65535;  // GGUF's limit for keys
constexpr std::uint32_t kMaxDimensions = 4;     // ggml's

enum class Kind : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// Bytes that a value of a kind has at least; 0 for a number that is no kind.
std::uint64_t least_bytes(Kind kind) {
  switch (kind) {
    case Kind::kUint8:
    case Kind::kInt8:
    case Kind::kBool:
      return 1;
    case Kind::kUint16:
    case Kind::kInt16:
      return 2;
    case Kind::kUint32:
    case Kind::kInt32:
    case Kind::kFloat32:
      return 4;
    case Kind::kString:
    case Kind::kUint64:
    case Kind::kInt64:
    case Kind::kFloat64:
      return 8;
    case Kind::kArray:
      return 12;
  }
  return 0;
}

// Reads forward through the header in buffered pieces and refuses to step over the end of the file.
class Cursor {
 public:
  explicit Cursor(const InputFile& file)
      : file_(file), end_(std::min(file.size(), kMaxHeaderBytes)) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return end_ - position_; }

  // What is being read, for messages; the text must outlive the reads.
  void set_subject(std::string_view subject) { subject_ = subject; }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("{}: {}", file_.path().string(), what));
  }

  template <typename T>
  T number() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    copy(reinterpret_cast<char*>(&value), sizeof(T));
    return value;
  }

  std::string text(std::uint64_t max_bytes) {
    const auto length = number<std::uint64_t>();
    if (length > max_bytes) {
      fail(fmt::format("{} has a length of {} bytes; at most {} are possible", subject_, length,
                       max_bytes));
    }
    require(length);
    std::string value(static_cast<std::size_t>(length), '\0');
    copy(value.data(), value.size());
    return value;
  }
  std::string text() { return text(std::numeric_limits<std::uint64_t>::max()); }

  // Throws where fewer than bytes are left.
  void require(std::uint64_t bytes) const {
    if (bytes <= remaining()) return;
    if (end_ < file_.size()) {
      fail(fmt::format("{} reaches beyond the first {} MiB, where a header must end", subject_,
                       kMaxHeaderBytes >> 20));
    }
    fail(
        fmt::format("{} needs {} bytes at byte {}, but the file has only {}: it is truncated or "
                    "damaged",
                    subject_, bytes, position_, file_.size()));
  }

 private:
  void copy(char* out, std::size_t bytes) {
    require(bytes);
    while (bytes > 0) {
      if (position_ - buffer_start_ >= buffer_.size()) refill();
      const auto at = static_cast<std::size_t>(position_ - buffer_start_);
      const std::size_t piece = std::min(bytes, buffer_.size() - at);
      std::memcpy(out, buffer_.data() + at, piece);
      out += piece;
      bytes -= piece;
      position_ += piece;
    }
  }

  void refill() {
    constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 18;
    buffer_start_ = position_;
    const std::uint64_t readable = file_.readable(position_);
    if (readable == 0) fail(fmt::format("{} is not stored in the checkpoint", subject_));
    buffer_.resize(static_cast<std::size_t>(std::min({kPieceBytes, remaining(), readable})));
    file_.read(position_, std::as_writable_bytes(std::span(buffer_)));
  }

  const InputFile& file_;
  std::uint64_t end_;
  std::uint64_t position_ = 0;
  std::uint64_t buffer_start_ = 0;
  std::string buffer_;
  std::string_view subject_;
};

bool read_bool(Cursor& in) {
  const auto value = in.number<std::uint8_t>();
  if (value > 1) in.fail(fmt::format("a boolean has the value {}; 0 and 1 are possible", value));
  return value == 1;
}

// Integers of every width as one signed type; nullopt where the kind is no integer.
std::optional<std::int64_t> read_signed(Cursor& in, Kind kind) {
  switch (kind) {
    case Kind::kUint8:
      return in.number<std::uint8_t>();
    case Kind::kInt8:
      return in.number<std::int8_t>();
    case Kind::kUint16:
      return in.number<std::uint16_t>();
    case Kind::kInt16:
      return in.number<std::int16_t>();
    case Kind::kUint32:
      return in.number<std::uint32_t>();
    case Kind::kInt32:
      return in.number<std::int32_t>();
    case Kind::kInt64:
      return in.number<std::int64_t>();
    case Kind::kUint64: {
      const auto value = in.number<std::uint64_t>();
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        in.fail(fmt::format("an array holds the integer {}, which is too large", value));
      }
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

template <typename T, typename Read>
std::vector<T> read_elements(std::uint64_t count, Read read) {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(count));  // checked against the file by the caller
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(read());
  return values;
}

GgufValue read_array(Cursor& in, std::string_view key) {
  const auto kind = static_cast<Kind>(in.number<std::uint32_t>());
  const auto count = in.number<std::uint64_t>();
  const std::uint64_t each = least_bytes(kind);
  if (each == 0 || kind == Kind::kArray) {
    in.fail(fmt::format("key {} is an array of kind {}; numbers, booleans and strings are read",
                        in_quotes(key), static_cast<std::uint32_t>(kind)));
  }
  if (count > in.remaining() / each) {
    in.fail(
        fmt::format("key {} claims {} elements, more than the file's {} remaining header bytes "
                    "can hold",
                    in_quotes(key), count, in.remaining()));
  }
  switch (kind) {
    case Kind::kBool:
      return {read_elements<bool>(count, [&] { return read_bool(in); })};
    case Kind::kString:
      return {read_elements<std::string>(count, [&] { return in.text(); })};
    case Kind::kFloat32:
      return {read_elements<double>(count, [&] { return double{in.number<float>()}; })};
    case Kind::kFloat64:
      return {read_elements<double>(count, [&] { return in.number<double>(); })};
    default:
      return {read_elements<std::int64_t>(count, [&] { return *read_signed(in, kind); })};
  }
}

GgufValue read_value(Cursor& in, std::string_view key) {
  const auto kind = static_cast<Kind>(in.number<std::uint32_t>());
  switch (kind) {
    case Kind::kBool:
      return {read_bool(in)};
    case Kind::kString:
      return {in.text()};
    case Kind::kFloat32:
      return {double{in.number<float>()}};
    case Kind::kFloat64:
      return {in.number<double>()};
    case Kind::kUint64:
      return {in.number<std::uint64_t>()};
    case Kind::kArray:
      return read_array(in, key);
    default:
      break;
  }
  const std::optional<std::int64_t> integer = read_signed(in, kind);
  if (!integer) {
    in.fail(fmt::format("key {} has the kind {}; 0 to 12 are possible", in_quotes(key),
                        static_cast<std::uint32_t>(kind)));
  }
  return {*integer};
}

void read_magic(Cursor& in, const InputFile& file) {
  if (file.head(4) != "GGUF") {
    const std::string what = appearance(file);
    in.fail("is not a GGUF file" + (what.empty() ? std::string() : "; it looks like " + what));
  }
  in.number<std::uint32_t>();
  const auto version = in.number<std::uint32_t>();
  if (version == 2 || version == 3) return;
  if ((version & 0xffffU) == 0) {
    in.fail("is a big-endian GGUF file; little-endian ones are read");
  }
  in.fail(fmt::format("has GGUF version {}; versions 2 and 3 are read", version));
}

void read_metadata(Cursor& in, std::uint64_t count, GgufHeader& header) {
  constexpr std::uint64_t kLeastBytes = 8 + 4 + 1;  // an empty name, a kind, one byte
  if (count > in.remaining() / kLeastBytes) {
    in.fail(fmt::format("claims {} metadata keys, more than its {} remaining bytes can hold", count,
                        in.remaining()));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    in.set_subject("a metadata key");
    std::string key = in.text(kMaxNameBytes);
    if (!is_plain_name(key))
      in.fail(fmt::format("metadata key {} is not plain text", in_quotes(key)));
    const std::string subject = "key " + in_quotes(key);
    in.set_subject(subject);
    GgufValue value = read_value(in, key);
    if (!header.metadata.emplace(key, std::move(value)).second) {
      in.fail(fmt::format("metadata key {} appears twice", in_quotes(key)));
    }
  }
}

// Product of the shape as bytes. Throws where it overflows or a row is not a whole number of
// blocks.
std::uint64_t tensor_bytes(const Cursor& in, const GgufTensor& tensor) {
  const GgmlTypeLayout* layout = ggml_type_layout(tensor.type);
  if (layout == nullptr) {
    in.fail(fmt::format("tensor {} has the unknown type {}", in_quotes(tensor.name), tensor.type));
  }
  const std::int64_t cols = tensor.shape.back();
  if (cols % layout->block_values != 0) {
    in.fail(fmt::format("tensor {} has rows of {} values, which is no multiple of {}'s block of {}",
                        in_quotes(tensor.name), cols, layout->name, layout->block_values));
  }
  std::uint64_t bytes = static_cast<std::uint64_t>(layout->block_bytes);
  bool overflow = __builtin_mul_overflow(
      bytes, static_cast<std::uint64_t>(cols / layout->block_values), &bytes);
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    overflow |= __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(tensor.shape[i]), &bytes);
  }
  if (overflow) in.fail(fmt::format("the size of tensor {} overflows", in_quotes(tensor.name)));
  return bytes;
}

GgufTensor read_tensor(Cursor& in) {
  GgufTensor tensor;
  in.set_subject("the tensor table");
  tensor.name = in.text(kMaxNameBytes);
  if (!is_plain_name(tensor.name)) {
    in.fail(fmt::format("tensor name {} is not plain text", in_quotes(tensor.name)));
  }
  const auto dimensions = in.number<std::uint32_t>();
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    in.fail(fmt::format("tensor {} has {} dimensions; 1 to {} are possible", in_quotes(tensor.name),
                        dimensions, kMaxDimensions));
  }
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto length = in.number<std::uint64_t>();
    if (length < 1 ||
        length > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      in.fail(fmt::format("tensor {} has a dimension of {}", in_quotes(tensor.name), length));
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(length));
  }
  tensor.type = in.number<std::uint32_t>();
  tensor.offset = in.number<std::uint64_t>();
  tensor.bytes = tensor_bytes(in, tensor);
  return tensor;
}

std::uint64_t alignment(const Cursor& in, const GgufHeader& header) {
  const auto found = header.metadata.find("general.alignment");
  if (found == header.metadata.end()) return 32;
  const auto* value = std::get_if<std::int64_t>(&found->second.value);
  constexpr std::int64_t kMaxAlignment = std::int64_t{1} << 24;
  if (value == nullptr || *value < 1 || *value > kMaxAlignment || (*value & (*value - 1)) != 0) {
    in.fail(fmt::format("general.alignment is not a power of two from 1 to {}", kMaxAlignment));
  }
  return static_cast<std::uint64_t>(*value);
}

// Makes offsets absolute and checks that every tensor lies in the file and none on another.
void place_tensors(const Cursor& in, const InputFile& file, GgufHeader& header) {
  if (header.tensors.empty()) return;
  const std::uint64_t align = alignment(in, header);
  const std::uint64_t data = (header.header_bytes + align - 1) / align * align;
  std::vector<const GgufTensor*> order;
  for (GgufTensor& tensor : header.tensors) {
    if (tensor.offset % align != 0) {
      in.fail(fmt::format("tensor {} starts at offset {}, which is no multiple of the alignment {}",
                          in_quotes(tensor.name), tensor.offset, align));
    }
    if (data > file.size() || tensor.offset > file.size() - data ||
        tensor.bytes > file.size() - data - tensor.offset) {
      in.fail(
          fmt::format("tensor {} ({} bytes at offset {} of the data) reaches beyond the end of "
                      "the file at byte {}: it is truncated or damaged",
                      in_quotes(tensor.name), tensor.bytes, tensor.offset, file.size()));
    }
    tensor.offset += data;
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset) {
      in.fail(fmt::format("tensors {} and {} overlap", in_quotes(order[i - 1]->name),
                          in_quotes(order[i]->name)));
    }
  }
}

}  // namespace

GgufHeader read_gguf_header(const InputFile& file) {
  GgufHeader header;
  Cursor in(file);
  in.set_subject("the header");
  read_magic(in, file);
  const auto num_tensors = in.number<std::uint64_t>();
  const auto num_keys = in.number<std::uint64_t>();
  read_metadata(in, num_keys, header);
  constexpr std::uint64_t kLeastTensorBytes = 8 + 4 + 8 + 4 + 8;  // an empty name, one dimension
  if (num_tensors > in.remaining() / kLeastTensorBytes) {
    in.fail(fmt::format("claims {} tensors, more than its {} remaining bytes can describe",
                        num_tensors, in.remaining()));
  }
  std::set<std::string_view> names;
  header.tensors.reserve(static_cast<std::size_t>(num_tensors));
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    header.tensors.push_back(read_tensor(in));
    if (!names.insert(header.tensors.back().name).second) {
      in.fail(fmt::format("tensor {} appears twice", in_quotes(header.tensors.back().name)));
    }
  }
  header.header_bytes = in.position();
  place_tensors(in, file, header);
  return header;
}

}  // namespace headrace
