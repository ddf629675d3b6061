import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Network = [Address, number]

/** Says of an address whether deliveries may connect to it. */
export interface AddressRules {
  /** `address` is an IPv4 or IPv6 address as text, with or without a zone. A text that is no address is not allowed. */
  isAllowed(address: string): boolean
}

/**
 * Every address that is not global unicast is refused, unless one of `allowedNetworks` holds it. An address that embeds
 * another one in the form of RFC 4291 (`::ffff:10.0.0.1`) counts as the one that it maps. Throws as `parseNetwork`
 * does.
 */
export function addressRules(allowedNetworks: readonly string[]): AddressRules {
  const allowed = allowedNetworks.map(parseNetwork)
  return {
    isAllowed: (text) => {
      // isIP is strict: ipaddr.js would take 1.2.3 and 010.0.0.1 too.
      if (isIP(text) === 0 || isCompatible(text)) return false
      const address = ipaddr.process(text)
      return isGlobalUnicast(address) || allowed.some((network) => contains(network, address))
    },
  }
}

/**
 * IPv4-compatible IPv6 (RFC 4291, 2.5.5.1) as `inet_ntop` writes it. ipaddr.js takes the text for a mapped address, the
 * operating system for an address of IPv6: what is judged would not be what is dialled.
 */
function isCompatible(text: string): boolean {
  return /^::\d+\./.test(text)
}

/**
 * A network in CIDR notation, or one address. A network of mapped addresses is the IPv4 network that it maps. Throws an
 * Error whose message continues the name of a variable.
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
  return new Error(`holds ${JSON.stringify(text)}, which is no network such as 10.0.0.0/8 or fd00::/8`)
}

function contains([network, bits]: Network, address: Address): boolean {
  return network.kind() === address.kind() && address.match(network, bits)
}

/** IANA hands out global unicast addresses from this network alone. */
const globalIpv6: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/**
 * Azure gives a virtual machine its configuration, secrets included, at this address, which is public by its number.
 */
const azurePlatform = '168.63.129.16'

/**
 * ipaddr.js calls every address `unicast` that none of its special ranges holds, `::7f00:1` (127.0.0.1 in the form
 * "IPv4-compatible") and everything that IANA has not assigned among them; hence the second condition.
 */
function isGlobalUnicast(address: Address): boolean {
  if (address.range() !== 'unicast') return false
  return address.kind() === 'ipv4' ? address.toString() !== azurePlatform : address.match(globalIpv6)
}
