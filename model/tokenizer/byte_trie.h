// A trie over bytes in one flat table: (node, byte) to node.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/token.h"

namespace headrace {

class ByteTrie {
 public:
  static constexpr std::uint32_t kRoot = 1;

  struct Node {
    std::uint64_t key = 0;  // parent << 8 | byte; 0: there is no such node
    std::uint32_t number = 0;
    TokenId value = -1;  // of the text that ends here, -1 where none does
  };

  /// For texts of `bytes` bytes altogether.
  explicit ByteTrie(std::size_t bytes = 0) : slots_(std::bit_ceil(bytes + bytes / 2 + 2)) {}

  /// The node where the text ends, for the caller to give it a value. Not for an empty text.
  Node& insert(std::string_view text) {
    std::uint32_t parent = kRoot;
    Node* node = nullptr;
    for (const char c : text) {
      const std::uint64_t key = key_of(parent, c);
      node = &slots_[slot_of(key)];
      if (node->key == 0) *node = {.key = key, .number = ++last_, .value = -1};
      parent = node->number;
    }
    return *node;
  }

  /// nullptr where the parent has no such child.
  const Node* child(std::uint32_t parent, char byte) const {
    const Node& node = slots_[slot_of(key_of(parent, byte))];
    return node.key == 0 ? nullptr : &node;
  }

 private:
  static std::uint64_t key_of(std::uint32_t parent, char byte) {
    return static_cast<std::uint64_t>(parent) << 8 | static_cast<unsigned char>(byte);
  }
  std::size_t slot_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = (key * 0x9E3779B97F4A7C15U >> 29) & mask;  // Fibonacci hashing
    while (slots_[slot].key != key && slots_[slot].key != 0) slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<Node> slots_;
  std::uint32_t last_ = kRoot;
};

}  // namespace headrace
