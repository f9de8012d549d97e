/* Frames: finding the packet in one, checking it (docs/protocol.md section 2), addressing one. */
#ifndef PASSING_DATAPLANE_BPF_PACKET_H
#define PASSING_DATAPLANE_BPF_PACKET_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
/* after the kernel's headers */
#include <bpf/bpf_endian.h>

#include "maps.h"

#define INLINE static __always_inline
/* The compiler may not compute a value twice: the verifier knows the bounds of a register, not of a formula.
 */
#define SAME_REGISTER(value) asm volatile("" : "+r"(value))

/* What was found in a frame. Offsets, not pointers: those do not survive a change of the frame. */
struct found {
  uint32_t udp;    /* where the UDP header begins: 34 or 54 */
  uint32_t length; /* of the packet, in bytes */
  uint8_t ip[16];  /* the sender's, IPv4 in its IPv6 form */
  uint16_t port;   /* the sender's, in network order */
  uint16_t door;   /* which of the switch's ports it came to: lane mod ports */
};

/* As it is in memory now: a value that went through a map is one that the verifier knows nothing about. */
#define AGAIN(value) (*(const volatile typeof(value)*)&(value))

/* Where the UDP header begins, with a bound that the verifier sees. */
INLINE uint32_t udp_of(const struct found* found) { return AGAIN(found->udp) & 63; }

INLINE void count(struct passing_bpf_counters* all, uint32_t which, uint64_t by) { all->value[which] += by; }

INLINE void map_address(uint8_t* ip, uint32_t four) {
  uint32_t* words = (uint32_t*)ip;
  words[0] = 0;
  words[1] = 0;
  words[2] = bpf_htonl(0xFFFF);
  words[3] = four;
}

/* By words, which compilers do not always see. */
INLINE int same_address(const void* a, const void* b) {
  const uint32_t* x = a;
  const uint32_t* y = b;
  return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && x[3] == y[3];
}

/* Volatile to the last: a compiler that sees through it knows only the zeros before the loader. */
INLINE int is_switch(const void* ip) {
  const uint32_t* x = ip;
  const volatile uint32_t* own = (const volatile uint32_t*)settings.address;
  return x[0] == own[0] && x[1] == own[1] && x[2] == own[2] && x[3] == own[3];
}

INLINE int is_mapped(const void* ip) {
  const uint32_t* x = ip;
  return x[0] == 0 && x[1] == 0 && x[2] == bpf_htonl(0xFFFF);
}

/* Of an IPv4 header without options, whatever its checksum field says. */
INLINE uint16_t header_sum(const struct iphdr* ip) {
  const uint16_t* half = (const uint16_t*)ip;
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < 10; ++i) sum += half[i];
  sum = (sum & 0xFFFF) + (sum >> 16);
  return (uint16_t)(sum + (sum >> 16));
}

/* Whether a frame is a datagram for the switch. What is not, or not whole, is the kernel's business:
 * fragments, options and extension headers too, since no member sends them. */
INLINE int find(void* data, void* end, uint32_t frame_bytes, struct found* found) {
  const struct ethhdr* ethernet = data;
  if ((void*)(ethernet + 1) > end) return 0;
  uint32_t payload;
  if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
    const struct iphdr* ip = (void*)(ethernet + 1);
    if ((void*)(ip + 1) > end) return 0;
    if (ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP) return 0;
    if ((ip->frag_off & bpf_htons(0x3FFF)) != 0 || header_sum(ip) != 0xFFFF) return 0;
    uint8_t to[16] __attribute__((aligned(8)));
    map_address(to, ip->daddr);
    if (!is_switch(to)) return 0;
    map_address(found->ip, ip->saddr);
    found->udp = sizeof *ethernet + sizeof *ip;
    payload = bpf_ntohs(ip->tot_len);
    if (payload < sizeof *ip) return 0;
    payload -= sizeof *ip;
  } else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
    const struct ipv6hdr* ip = (void*)(ethernet + 1);
    if ((void*)(ip + 1) > end) return 0;
    if (ip->version != 6 || ip->nexthdr != IPPROTO_UDP || !is_switch(&ip->daddr)) return 0;
    if (is_mapped(&ip->daddr) || is_mapped(&ip->saddr)) return 0; /* on no wire, unless someone cheats */
    __builtin_memcpy(found->ip, &ip->saddr, sizeof found->ip);
    found->udp = sizeof *ethernet + sizeof *ip;
    payload = bpf_ntohs(ip->payload_len);
  } else {
    return 0;
  }
  const uint32_t at = udp_of(found);
  const struct udphdr* udp = data + at;
  if ((void*)(udp + 1) > end) return 0;
  const uint16_t door = bpf_ntohs(udp->dest) - settings.port;
  if (door >= settings.ports) return 0;
  const uint32_t length = bpf_ntohs(udp->len);
  if (length < sizeof *udp || length > payload || at + length > frame_bytes) return 0;
  found->port = udp->source;
  found->door = door;
  found->length = length - sizeof *udp;
  return 1;
}

/* Checks that need no job. `length` is that of the packet. Returns the counter of the first that fails, or
 * PASSING_BPF_COUNTERS. */
INLINE uint32_t check(const struct passing_header* header, uint32_t length) {
  if (header->magic != bpf_htons(PASSING_MAGIC)) return PASSING_BPF_BAD_MAGIC;
  if (header->version != PASSING_VERSION) return PASSING_BPF_BAD_VERSION;
  const uint8_t type = header->type;
  if (type != PASSING_CONTRIBUTION && type != PASSING_ABORT && type != PASSING_STATUS_REQUEST)
    return PASSING_BPF_BAD_TYPE;
  if ((header->flags & ~PASSING_FLAG_AGAIN) != 0) return PASSING_BPF_BAD_FLAGS;
  const uint32_t words = bpf_ntohs(header->count);
  if (type == PASSING_CONTRIBUTION ? words > settings.elements
                                   : words != (type == PASSING_ABORT ? 0 : PASSING_REPORT_WORDS))
    return PASSING_BPF_BAD_COUNT;
  if (length != PASSING_HEADER_BYTES + 4 * words) return PASSING_BPF_BAD_LENGTH;
  const uint16_t word = bpf_ntohs(header->word);
  if (word > PASSING_WORD_FINITE_MAX && word < PASSING_WORD_NONFINITE) return PASSING_BPF_BAD_WORD;
  return PASSING_BPF_COUNTERS;
}

/* The headers of an answer of `length` bytes, from the switch to wherever the frame came from. */
INLINE void turn_round(void* data, uint32_t udp_at, uint32_t length) {
  struct ethhdr* ethernet = data;
  uint8_t mac[ETH_ALEN];
  __builtin_memcpy(mac, ethernet->h_source, ETH_ALEN);
  __builtin_memcpy(ethernet->h_source, ethernet->h_dest, ETH_ALEN);
  __builtin_memcpy(ethernet->h_dest, mac, ETH_ALEN);
  if (udp_at == sizeof *ethernet + sizeof(struct iphdr)) {
    struct iphdr* ip = (void*)(ethernet + 1);
    const uint32_t to = ip->saddr;
    ip->saddr = ip->daddr;
    ip->daddr = to;
    ip->tot_len = bpf_htons((uint16_t)(length + sizeof(struct udphdr) + sizeof *ip));
    ip->ttl = 64;
    ip->check = 0;
    ip->check = ~header_sum(ip);
  } else {
    struct ipv6hdr* ip = (void*)(ethernet + 1);
    const struct in6_addr to = ip->saddr;
    ip->saddr = ip->daddr;
    ip->daddr = to;
    ip->payload_len = bpf_htons((uint16_t)(length + sizeof(struct udphdr)));
    ip->hop_limit = 64;
  }
  struct udphdr* udp = data + udp_at;
  const uint16_t port = udp->source;
  udp->source = udp->dest;
  udp->dest = port;
  udp->len = bpf_htons((uint16_t)(length + sizeof *udp));
  udp->check = 0; /* none: section 2 */
}

/* Sends the answer to someone else instead. */
INLINE void readdress(void* data, uint32_t udp_at, const struct passing_bpf_place* to) {
  struct ethhdr* ethernet = data;
  const uint64_t mac = to->mac;
  __builtin_memcpy(ethernet->h_dest, &mac, ETH_ALEN);
  if (udp_at == sizeof *ethernet + sizeof(struct iphdr)) {
    struct iphdr* ip = (void*)(ethernet + 1);
    ip->daddr = ((const uint32_t*)to->ip)[3];
    ip->check = 0;
    ip->check = ~header_sum(ip);
  } else {
    struct ipv6hdr* ip = (void*)(ethernet + 1);
    __builtin_memcpy(&ip->daddr, to->ip, sizeof to->ip);
  }
  struct udphdr* udp = data + udp_at;
  udp->dest = to->port;
}

#endif
