import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from '@jest/globals'
import { clientReader } from './client.ts'

const request = (remoteAddress: string, headers: Record<string, string> = {}) =>
  ({ socket: { remoteAddress }, headers }) as unknown as IncomingMessage

const forwarded = {
  'x-forwarded-for': '203.0.113.7, 10.0.0.9',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'stats.example',
  host: 'gateway:8080',
}

describe('without trusted proxies', () => {
  test('the connection alone is believed', () => {
    const clients = clientReader([])
    expect(clients.read(request('10.0.0.1', forwarded))).toStrictEqual({ address: '10.0.0.1', isSecure: false })
    expect(clients.host(request('10.0.0.1', forwarded))).toBe('gateway:8080')
  })
})

describe('with trusted proxies', () => {
  const clients = clientReader(['10.0.0.0/8', 'loopback'])

  test('the first address that none of them vouches for is the client’s', () => {
    expect(clients.read(request('10.0.0.1', forwarded))).toStrictEqual({ address: '203.0.113.7', isSecure: true })
    expect(clients.host(request('10.0.0.1', forwarded))).toBe('stats.example')
  })

  test('a client that claims to be a proxy is not believed', () => {
    expect(clients.read(request('203.0.113.66', forwarded))).toStrictEqual({
      address: '203.0.113.66',
      isSecure: false,
    })
    expect(clients.host(request('203.0.113.66', forwarded))).toBe('gateway:8080')
  })

  test('addresses that a client put first are passed over', () => {
    const forged = { 'x-forwarded-for': '127.0.0.1, 203.0.113.7' }
    expect(clients.read(request('10.0.0.1', forged)).address).toBe('203.0.113.7')
  })
})

test('what is no address, network or known name is refused', () => {
  expect(() => clientReader(['my-proxy'])).toThrow('invalid IP address: my-proxy')
})
