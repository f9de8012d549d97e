// The opponent of the slot add: what anyone would write, compiled for this machine.
#pragma once

#include <cstddef>
#include <cstdint>

void plain_add(std::int32_t* sum, const std::int32_t* in, std::size_t n);
