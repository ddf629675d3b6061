import { BlockList } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { addressRules, parseNetwork } from './address-rules.ts'

const rules = addressRules([])

/** The tables of the tests of Svix (webhook_http_client.rs) and Smokescreen (smokescreen_test.go), and our own. */
const refused = {
  'Svix, after the examples of is_global in the standard library of Rust': [
    '10.254.0.0',
    '192.168.10.65',
    '172.16.10.65',
    '0.1.2.3',
    '0.0.0.0',
    '127.0.0.1',
    '169.254.45.1',
    '255.255.255.255',
    '192.0.2.255',
    '198.51.100.65',
    '203.0.113.6',
    '100.100.0.0',
    '192.0.0.0',
    '192.0.0.255',
    '250.10.20.30',
    '198.18.0.0',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:0.0.0.1',
  ],
  Smokescreen: [
    '10.0.0.1',
    '10.0.1.1',
    '172.16.0.1',
    '172.16.1.1',
    '192.168.0.1',
    '192.168.1.1',
    '192.168.1.100',
    '100.64.0.1',
    '100.64.0.100',
    '100.127.255.254',
    '127.255.255.255',
    '127.0.1.1',
    '169.254.169.254',
    'ff02:0:0:0:0:0:0:2',
    '64:ff9b::ac1c:5',
    '64:ff9b::c000:201',
    '64:ff9b::a00:1',
    '64:ff9b::808:808',
    '64:ff9b::ffff:ffff',
    '2002:c000:201::1',
    '2002:a00:1::1',
    '2002:808:808::1',
    '2001:0:4136:e378:8000:63bf:3fff:fdd2',
    '2001:0:1234:5678:9abc:def0:1234:5678',
  ],
  'forms that embed an IPv4 address': [
    '::7f00:1',
    '::127.0.0.1',
    '::8.8.8.8',
    '::ffff:10.0.0.1',
    '::ffff:a9fe:a9fe',
    '0:0:0:0:0:ffff:7f00:0001',
    '::ffff:0:127.0.0.1',
    '64:ff9b:1::a00:1',
    '2001:0:7f00:1::',
  ],
  'networks for other purposes': [
    '::',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'fc00::1',
    'fd00:ec2::254',
    'ff0e::1',
    '100::1',
    '2001:2::1',
    '2001:10::1',
    '2001:20::1',
    '2001:db8::1',
    '3fff::1',
    '5f00::1',
    '192.88.99.1',
    '198.19.255.255',
    '224.0.0.1',
    '239.255.255.255',
  ],
  'services of clouds for the virtual machine': [
    '168.63.129.16',
    '::ffff:168.63.129.16',
    '100.100.100.200',
    '192.0.0.192',
  ],
  'unassigned addresses of IPv6': ['64:ff9c::1', '400::1', '1fff::1', '4000::1', '8000::1', 'f000::1'],
  'texts that are no address': [
    '',
    'localhost',
    '1.2.3',
    '127.1',
    '010.8.8.8',
    '8.8.8.8 ',
    '1.1.1.1.1',
    '[::1]',
    '1.1.1.1:80',
    '::1::',
  ],
}

const allowed = {
  Svix: ['1.1.1.1', '2001:4860:4860::8888', '::ffff:8.8.8.8'],
  Smokescreen: ['8.8.8.8', '8.8.9.8', '100.63.255.254', '100.128.0.1', '2606:4700:4700::1111'],
  'neighbours of refused networks': ['9.255.255.255', '11.0.0.0', '172.15.255.255', '172.32.0.0', '192.167.255.255'],
}

describe.each(Object.entries(refused))('refused: %s', (_origin, addresses) => {
  test.each(addresses)('%s', (address) => expect(rules.isAllowed(address)).toBe(false))
})

describe.each(Object.entries(allowed))('allowed: %s', (_origin, addresses) => {
  test.each(addresses)('%s', (address) => expect(rules.isAllowed(address)).toBe(true))
})

/**
 * IANA's registries of special-purpose addresses, no matter what they say about "globally reachable", and multicast.
 */
const special = new BlockList()
for (const [address, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
  ['168.63.129.16', 32],
] as const)
  special.addSubnet(address, bits, 'ipv4')
for (const [address, bits] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['2620:4f:8000::', 48],
  ['3fff::', 20],
] as const)
  special.addSubnet(address, bits, 'ipv6')

const byte = fc.integer({ min: 0, max: 255 })
/** Half of the first two octets come from the special networks, which random numbers seldom meet. */
const ipv4 = fc
  .tuple(
    fc.oneof(byte, fc.constantFrom(0, 10, 100, 127, 169, 172, 192, 198, 203, 224, 240)),
    fc.oneof(byte, fc.constantFrom(0, 18, 31, 51, 52, 64, 88, 168, 175, 254)),
    fc.oneof(byte, fc.constantFrom(0, 2, 48, 99, 100, 113, 193, 196)),
    byte,
  )
  .map((octets) => octets.join('.'))
const word = fc.integer({ min: 0, max: 0xffff })
const ipv6 = fc
  .tuple(
    fc.oneof(word, fc.constantFrom(0, 0x64, 0x2001, 0x2002, 0x2620, 0x3fff, 0xfe80)),
    fc.array(fc.oneof(word, fc.constantFrom(0, 0xffff, 0xff9b, 0xdb8)), { minLength: 7, maxLength: 7 }),
  )
  .map(([first, others]) => [first, ...others].map((each) => each.toString(16)).join(':'))

describe('random addresses', () => {
  test('of IPv4 are allowed outside of the special networks, and so is the address that maps them', () => {
    fc.assert(
      fc.property(ipv4, (address) => {
        expect(rules.isAllowed(address)).toBe(!special.check(address, 'ipv4'))
        expect(rules.isAllowed(`::ffff:${address}`)).toBe(rules.isAllowed(address))
      }),
      { numRuns: 3_000 },
    )
  })

  test('of IPv4 are refused in every other form of IPv6 that embeds them', () => {
    fc.assert(
      fc.property(ipv4, (address) => {
        const [high = '', low = ''] = ipaddr.IPv4.parse(address)
          .toIPv4MappedAddress()
          .toNormalizedString()
          .split(':')
          .slice(6)
        const forms = [
          `::${address}`,
          `::ffff:0:${address}`,
          `64:ff9b::${address}`,
          `64:ff9b:1::${address}`,
          `2002:${high}:${low}::1`,
        ]
        expect(forms.filter((form) => rules.isAllowed(form))).toEqual([])
      }),
      { numRuns: 1_000 },
    )
  })

  test('of IPv6 are allowed in 2000::/3 alone, outside of the special networks', () => {
    fc.assert(
      fc.property(ipv6, (address) => {
        const isMapped = ipaddr.IPv6.parse(address).isIPv4MappedAddress()
        const isGlobal = (Number.parseInt(address, 16) & 0xe000) === 0x2000
        expect(isMapped || rules.isAllowed(address) === (isGlobal && !special.check(address, 'ipv6'))).toBe(true)
      }),
      { numRuns: 3_000 },
    )
  })

  test('are allowed in a network that the operator names, and not beside it', () => {
    fc.assert(
      fc.property(ipv4, fc.integer({ min: 1, max: 32 }), ipv4, (network, bits, address) => {
        const list = new BlockList()
        list.addSubnet(network, bits, 'ipv4')
        const expected = list.check(address, 'ipv4') || rules.isAllowed(address)
        expect(addressRules([`${network}/${bits}`]).isAllowed(address)).toBe(expected)
        expect(addressRules([`${network}/${bits}`]).isAllowed(`::ffff:${address}`)).toBe(expected)
        expect(addressRules([`::ffff:${network}/${bits + 96}`]).isAllowed(address)).toBe(expected)
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('networks of the operator', () => {
  test('allow what they hold, of their own family alone', () => {
    const own = addressRules(['10.1.0.0/16', 'fd00::/8', '192.168.7.7'])
    expect(['10.1.2.3', 'fd12::1', '192.168.7.7', '::ffff:10.1.2.3'].filter((each) => !own.isAllowed(each))).toEqual([])
    expect(['10.2.0.1', 'fe80::1', '192.168.7.8', '::10.1.2.3'].filter((each) => own.isAllowed(each))).toEqual([])
  })

  test('with NAT64 allow the public IPv4 addresses behind it, and private ones that are listed', () => {
    const forms = ['8.8.8.8', '10.0.0.1', '10.1.0.1', '127.0.0.1', '169.254.169.254'].map((each) => `64:ff9b::${each}`)
    const allowedOf = (networks: string[]) => forms.filter((each) => addressRules(networks).isAllowed(each))
    expect(allowedOf(['64:ff9b::/96'])).toEqual(['64:ff9b::8.8.8.8'])
    expect(allowedOf(['64:ff9b::/96', '10.1.0.0/16'])).toEqual(['64:ff9b::8.8.8.8', '64:ff9b::10.1.0.1'])
    expect(allowedOf(['::/0', '10.0.0.0/8'])).toEqual(['64:ff9b::8.8.8.8', '64:ff9b::10.0.0.1', '64:ff9b::10.1.0.1'])
    expect(allowedOf(['10.0.0.0/8'])).toEqual([])
    const hexadecimal = ['64:ff9b::808:808', '64:ff9b::a00:1', '64:ff9b::7f00:1', '64:ff9b::a9fe:a9fe']
    const own = addressRules(['64:ff9b::/96'])
    expect(hexadecimal.map((each) => own.isAllowed(each))).toEqual([true, false, false, false])
  })

  test('refuse public addresses in the second list, but for those in the first one', () => {
    const own = addressRules(['2600:1f14:1:0:9::/80', '64:ff9b::/96'], ['2600:1f14:1::/56', '203.1.0.0/16'])
    const addresses = ['2600:1f14:1::9', '203.1.2.3', '::ffff:203.1.2.3', '64:ff9b::203.1.2.3']
    expect(addresses.filter((each) => own.isAllowed(each))).toEqual([])
    const others = ['2600:1f14:1:100::9', '2600:1f14:1:0:9::9', '203.2.2.3', '64:ff9b::203.2.2.3']
    expect(others.filter((each) => !own.isAllowed(each))).toEqual([])
  })

  test('refuse all addresses of a NAT64 with a prefix of its own', () => {
    const own = addressRules([], ['2600:1f14:64::/96'])
    expect(['2600:1f14:64::10.0.0.1', '2600:1f14:64::8.8.8.8'].filter((each) => own.isAllowed(each))).toEqual([])
  })

  test.each(['10.0.0.0/33', 'fd00::/129', '10.0.0/8', 'example.com', '10.1', '0x0a000000/8', '/8', '10.0.0.0/'])(
    '%s is refused',
    (text) => expect(() => parseNetwork(text)).toThrow(/^holds ".*", which is not a network such as/),
  )
})
