#include "runtime/job/job_key.h"

#include <fmt/format.h>

#include <algorithm>

namespace headrace {
namespace {

const JobKeyPart* find(const JobKey& key, const std::string& name) {
  const auto part =
      std::find_if(key.begin(), key.end(), [&](const JobKeyPart& p) { return p.name == name; });
  return part == key.end() ? nullptr : &*part;
}

std::string difference_of(const JobKeyPart& earlier, const JobKeyPart* now) {
  std::string text = fmt::format("{} was {} and is now {}", earlier.name, earlier.value,
                                 now == nullptr ? "absent" : now->value);
  if (!earlier.option.empty()) text += fmt::format(" ({} restores it)", earlier.option);
  return text;
}

void append(std::string& text, const std::string& clause) {
  if (!text.empty()) text += "; ";
  text += clause;
}

}  // namespace

Hash128 hash_of(const JobKey& key) {
  std::string bytes;
  for (const JobKeyPart& part : key) {
    // Lengths keep ("a", "bc") apart from ("ab", "c").
    bytes +=
        fmt::format("{}:{}={}:{};", part.name.size(), part.name, part.value.size(), part.value);
  }
  return hash128(bytes);
}

std::string describe_difference(const JobKey& earlier, const JobKey& now) {
  std::string text;
  for (const JobKeyPart& part : earlier) {
    const JobKeyPart* other = find(now, part.name);
    if (other == nullptr || other->value != part.value) append(text, difference_of(part, other));
  }
  for (const JobKeyPart& part : now) {
    if (find(earlier, part.name) == nullptr) {
      append(text, fmt::format("{} was absent and is now {}", part.name, part.value));
    }
  }
  return text;
}

}  // namespace headrace
