// Every method name of the types a template meets.
#pragma once

#include <cstdint>

namespace headrace::jinja {

enum class Method : std::uint8_t {
  kNone,
  // str
  kCapitalize, kCasefold, kCenter, kCount, kEncode, kEndsWith, kExpandTabs, kFind, kFormat, kFormatMap,
  kIndex, kIsAlnum, kIsAlpha, kIsAscii, kIsDecimal, kIsDigit, kIsIdentifier, kIsLower, kIsNumeric,
  kIsPrintable, kIsSpace, kIsTitle, kIsUpper, kJoin, kLjust, kLower, kLstrip, kMakeTrans, kPartition,
  kRemovePrefix, kRemoveSuffix, kReplace, kRfind, kRindex, kRjust, kRpartition, kRsplit, kRstrip, kSplit,
  kSplitLines, kStartsWith, kStrip, kSwapCase, kTitle, kTranslate, kUpper, kZfill,
  // Markup
  kEscape, kStripTags, kUnescape,
  // dict
  kClear, kCopy, kFromKeys, kGet, kItems, kKeys, kPop, kPopItem, kSetDefault, kUpdate, kValues,
  // list
  kAppend, kExtend, kInsert, kRemove, kReverse, kSort,
  // views
  kIsDisjoint,
  // numbers
  kAsIntegerRatio, kBitCount, kBitLength, kConjugate, kFromBytes, kFromHex, kHex, kIsInteger, kToBytes,
  // generators
  kClose, kSend, kThrow,
  // loop, cycler
  kCycle, kChanged, kNext, kReset,
};

}  // namespace headrace::jinja
