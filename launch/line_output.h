// Where a command's lines go: standard output, line by line as they come, or a file that appears
// only once it is complete.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace headrace {

class LineOutput {
 public:
  virtual ~LineOutput() = default;
  virtual void write(std::string_view line) = 0;
  /// Makes the lines final. An output that is destroyed without it leaves no file.
  virtual void finish() = 0;

  /// "-" is standard output. Throws std::invalid_argument where path cannot be created.
  static std::unique_ptr<LineOutput> open(const std::string& path);
};

}  // namespace headrace
