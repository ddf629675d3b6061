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
 * another one in the form of RFC 4291 (`::ffff:10.0.0.1`) counts as the one that it maps. Throws as `parseNetwork` does.
 */
export function addressRules(allowedNetworks: readonly string[]): AddressRules {
  const allowed = allowedNetworks.map(parseNetwork)
  return {
    isAllowed: (text) => {
      if (!ipaddr.isValid(text)) return false
      const address = ipaddr.process(text)
      return isGlobalUnicast(address) || allowed.some((network) => contains(network, address))
    },
  }
}

/**
 * A network in CIDR notation, or one address. A network of mapped addresses is the IPv4 network that it maps. Throws an
 * Error whose message continues the name of a variable.
 */
export function parseNetwork(text: string): Network {
  const [address, bits] = text.includes('/') ? cidrOf(text) : wholeAddress(text)
  const isMapped = address.kind() === 'ipv6' && (address as ipaddr.IPv6).isIPv4MappedAddress()
  return isMapped && bits >= 96 ? [(address as ipaddr.IPv6).toIPv4Address(), bits - 96] : [address, bits]
}

function cidrOf(text: string): Network {
  const isStrict = ipaddr.IPv6.isValidCIDR(text) || ipaddr.IPv4.isValidCIDRFourPartDecimal(text)
  if (!isStrict) throw new Error(`holds ${JSON.stringify(text)}, which is no network such as 10.0.0.0/8 or fd00::/8`)
  return ipaddr.parseCIDR(text)
}

function wholeAddress(text: string): Network {
  const isStrict = ipaddr.IPv6.isValid(text) || ipaddr.IPv4.isValidFourPartDecimal(text)
  if (!isStrict) throw new Error(`holds ${JSON.stringify(text)}, which is no network such as 10.0.0.0/8 or fd00::/8`)
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

function contains([network, bits]: Network, address: Address): boolean {
  return network.kind() === address.kind() && address.match(network, bits)
}

/** IANA hands out global unicast addresses from this network alone. */
const globalIpv6: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/**
 * ipaddr.js calls every address `unicast` that none of its special ranges holds, `::7f00:1` (127.0.0.1 in the form
 * "IPv4-compatible") and everything that IANA has not assigned among them; hence the second condition.
 */
function isGlobalUnicast(address: Address): boolean {
  if (address.range() !== 'unicast') return false
  return address.kind() === 'ipv4' || address.match(globalIpv6)
}
