// Values to bytes and back, for messages between processes of one job: they run the same version of the
// library on the same byte order, and the rendezvous sees to that.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace passing {

class Writer {
 public:
  template <class T>
  Writer& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    data_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    data_ += text;
    return *this;
  }
  std::string take() { return std::move(data_); }

 private:
  std::string data_;
};

/// Reads as long as there is enough; whole() says whether it all fitted.
class Reader {
 public:
  explicit Reader(const std::string& data) : data_(data) {}

  template <class T>
  Reader& get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (fits(sizeof value)) {
      std::memcpy(&value, data_.data() + at_, sizeof value);
      at_ += sizeof value;
    }
    return *this;
  }
  Reader& get(std::string& text) {
    std::uint32_t size = 0;
    get(size);
    if (fits(size)) {
      text = data_.substr(at_, size);
      at_ += size;
    }
    return *this;
  }
  bool whole() const { return good_ && at_ == data_.size(); }

 private:
  bool fits(std::size_t bytes) { return good_ = good_ && data_.size() - at_ >= bytes; }
  const std::string& data_;
  std::size_t at_ = 0;
  bool good_ = true;
};

/// The version of the library that whoever wrote this has. What may come from another version begins with
/// it, in every version, so that it can be named even if nothing else can be read. None: it is no such
/// thing.
inline std::optional<std::string> leading_version(const std::string& data) {
  constexpr std::size_t kLongest = 64;
  std::string version;
  Reader(data).get(version);
  const bool printable =
      std::ranges::all_of(version, [](unsigned char each) { return std::isgraph(each) != 0; });
  return version.empty() || version.size() > kLongest || !printable ? std::nullopt : std::optional(version);
}

}  // namespace passing
