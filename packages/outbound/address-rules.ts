import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Network = [Address, number]

/** Decides whether deliveries may connect to an address. */
export interface AddressRules {
  /** `address` is an IPv4 or IPv6 address as text, with or without a zone. Other texts are not allowed. */
  isAllowed(address: string): boolean
}

/**
 * Refuses every address that is not global unicast or that one of `refusedNetworks` contains, unless one of
 * `allowedNetworks` contains it. An IPv4-mapped IPv6 address (RFC 4291, `::ffff:10.0.0.1`) counts as the IPv4 address
 * that it maps. For an address of NAT64 (`64:ff9b::10.0.0.1`) in an allowed network, the IPv4 address that it leads to
 * must be allowed as well. Throws the errors of `parseNetwork`.
 */
export function addressRules(
  allowedNetworks: readonly string[],
  refusedNetworks: readonly string[] = [],
): AddressRules {
  const allowed = allowedNetworks.map(parseNetwork)
  const refused = refusedNetworks.map(parseNetwork)
  const isAddressAllowed = (address: Address): boolean => {
    const isIn = (networks: readonly Network[]) => networks.some((network) => contains(network, address))
    if (!isIn(allowed)) return isGlobalUnicast(address) && !isIn(refused)
    return !contains(nat64, address) || isAddressAllowed(new ipaddr.IPv4(address.toByteArray().slice(12)))
  }
  return {
    // isIP is strict; ipaddr.js would also accept 1.2.3 and 010.0.0.1.
    isAllowed: (text) => isIP(text) !== 0 && !isCompatible(text) && isAddressAllowed(ipaddr.process(text)),
  }
}

/** The well-known prefix of NAT64 (RFC 6052). The last 32 bits of an address are the IPv4 address behind it. */
const nat64: Network = ipaddr.parseCIDR('64:ff9b::/96')

/**
 * IPv4-compatible IPv6 (RFC 4291, 2.5.5.1), in the form of `inet_ntop`. ipaddr.js treats the text as a mapped address,
 * and the operating system treats it as an IPv6 address: the connection would go to another address than the checked
 * one.
 */
function isCompatible(text: string): boolean {
  return /^::\d+\./.test(text)
}

/**
 * A network in CIDR notation, or one address. A network of IPv4-mapped addresses is treated as the IPv4 network that it
 * maps. Throws an Error whose message continues the name of a variable.
 */
export function parseNetwork(text: string): Network {
  if (isCompatible(text)) throw noNetwork(text)
  const [address, bits] = text.includes('/') ? cidrOf(text) : wholeAddress(text)
  const isMapped = address.kind() === 'ipv6' && (address as ipaddr.IPv6).isIPv4MappedAddress()
  return isMapped && bits >= 96 ? [(address as ipaddr.IPv6).toIPv4Address(), bits - 96] : [address, bits]
}

function cidrOf(text: string): Network {
  const isStrict = ipaddr.IPv6.isValidCIDR(text) || ipaddr.IPv4.isValidCIDRFourPartDecimal(text)
  if (!isStrict) throw noNetwork(text)
  return ipaddr.parseCIDR(text)
}

function wholeAddress(text: string): Network {
  const isStrict = ipaddr.IPv6.isValid(text) || ipaddr.IPv4.isValidFourPartDecimal(text)
  if (!isStrict) throw noNetwork(text)
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

function noNetwork(text: string): Error {
  return new Error(`holds ${JSON.stringify(text)}, which is not a network such as 10.0.0.0/8 or fd00::/8`)
}

function contains([network, bits]: Network, address: Address): boolean {
  return network.kind() === address.kind() && address.match(network, bits)
}

/** IANA assigns global unicast addresses only from this network. */
const globalIpv6: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/**
 * At this address, Azure provides a virtual machine with its configuration, including secrets. The address is in a
 * public range.
 */
const azurePlatform = '168.63.129.16'

/**
 * ipaddr.js returns `unicast` for every address outside its special ranges, also for `::7f00:1` (127.0.0.1 in the form
 * "IPv4-compatible") and for all addresses that IANA has not assigned. The second condition refuses them.
 */
function isGlobalUnicast(address: Address): boolean {
  if (address.range() !== 'unicast') return false
  return address.kind() === 'ipv4' ? address.toString() !== azurePlatform : address.match(globalIpv6)
}
