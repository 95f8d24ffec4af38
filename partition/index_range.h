// A run of indices: layers, heads, rows.
#pragma once

namespace headrace {

/// [begin, end).
struct IndexRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

}  // namespace headrace
