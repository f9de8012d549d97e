#include "communicator/messages.h"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>

namespace passing {
namespace {

// Ranks of one job run the same version of the library on the same byte order: the rendezvous sees to that.
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

}  // namespace

std::string Control::encode() const {
  Writer out;
  out.put(type).put(number);
  out.put(signature.kind)
      .put(signature.type)
      .put(signature.reduction)
      .put(signature.root)
      .put(signature.count);
  if (error) {
    out.put(error->code).put(error->message);
    for (const std::uint16_t each : error->members) out.put(each);
  }
  return out.take();
}

std::optional<Control> Control::decode(const std::string& data) {
  Control control;
  Reader in(data);
  auto& s = control.signature;
  in.get(control.type).get(control.number);
  in.get(s.kind).get(s.type).get(s.reduction).get(s.root).get(s.count);
  if (control.type == Type::failure) {
    Error error{};
    in.get(error.code).get(error.message);
    const std::size_t fixed = 1 + 8 + 3 + 4 + 8 + 1 + 4 + error.message.size();
    for (std::size_t left = data.size() > fixed ? (data.size() - fixed) / 2 : 0; left > 0; --left)
      in.get(error.members.emplace_back());
    control.error = std::move(error);
  }
  return in.whole() ? std::optional(std::move(control)) : std::nullopt;
}

std::string Introduction::encode() const {
  return Writer().put(version).put(strategy).put(host).put(address).put(process).put(rank).put(size).take();
}

std::optional<Introduction> Introduction::decode(const std::string& data) {
  Introduction i;
  Reader in(data);
  in.get(i.version).get(i.strategy).get(i.host).get(i.address).get(i.process).get(i.rank).get(i.size);
  return in.whole() ? std::optional(std::move(i)) : std::nullopt;
}

std::string Introduction::name() const {
  return fmt::format("rank {} at {} (host {}, process {})", rank, address, host, process);
}

}  // namespace passing
