import type { Result } from 'ioredis'
import type { IdempotencyStore, StoredResponse } from '@sluice/access/idempotency'
import { idempotencyLimits } from '@sluice/contracts/idempotency'
import type { RedisLifetimes } from './port.ts'
import type { RedisConnection } from './redis-connection.ts'

type ClaimReply =
  [state: 'new' | 'running' | 'other'] | [state: 'answered', json: string] | [state: 'full', leftMs: number]

declare module 'ioredis' {
  interface RedisCommander<Context> {
    claimRequest(
      key: string,
      bytesKey: string,
      fingerprint: string,
      owner: string,
      claimMs: number,
      bytesMax: number,
    ): Result<ClaimReply, Context>
    completeRequest(
      key: string,
      bytesKey: string,
      fingerprint: string,
      json: string,
      resultMs: number,
    ): Result<number, Context>
    releaseRequest(key: string, owner: string): Result<number, Context>
  }
}

const claimScript = `
local claim = redis.call('hmget', KEYS[1], 'fingerprint', 'answer')
if not claim[1] then
  if tonumber(redis.call('get', KEYS[2]) or 0) >= tonumber(ARGV[4]) then
    return {'full', redis.call('pttl', KEYS[2])}
  end
  redis.call('hset', KEYS[1], 'fingerprint', ARGV[1], 'owner', ARGV[2])
  redis.call('pexpire', KEYS[1], ARGV[3])
  return {'new'}
end
if claim[1] ~= ARGV[1] then return {'other'} end
if claim[2] then return {'answered', claim[2]} end
return {'running'}
`

const completeScript = `
local claim = redis.call('hmget', KEYS[1], 'fingerprint', 'answer')
if claim[1] and (claim[1] ~= ARGV[1] or claim[2]) then return 0 end
redis.call('hset', KEYS[1], 'fingerprint', ARGV[1], 'answer', ARGV[2])
redis.call('incrby', KEYS[2], #KEYS[1] + #ARGV[1] + #ARGV[2])
if redis.call('pttl', KEYS[2]) < 0 then redis.call('pexpire', KEYS[2], ARGV[3]) end
return redis.call('pexpire', KEYS[1], ARGV[3])
`

const releaseScript = `
local claim = redis.call('hmget', KEYS[1], 'owner', 'answer')
if claim[1] ~= ARGV[1] or claim[2] then return 0 end
return redis.call('del', KEYS[1])
`

/**
 * Keeps claims and results of requests as hashes at `answer:<id>`, and the bytes of the results of an API key at
 * `answer-bytes:<key id>`. All of them expire in Redis; the count does so with the first result in it.
 */
export function redisIdempotency(connection: RedisConnection, { claimMs, resultMs }: RedisLifetimes): IdempotencyStore {
  const { client } = connection
  client.defineCommand('claimRequest', { numberOfKeys: 2, lua: claimScript })
  client.defineCommand('completeRequest', { numberOfKeys: 2, lua: completeScript })
  client.defineCommand('releaseRequest', { numberOfKeys: 1, lua: releaseScript })
  const redisKey = (id: string): string => `answer:${id}`
  const bytesKey = (keyId: string): string => `answer-bytes:${keyId}`
  const { storedBytesMax } = idempotencyLimits

  return {
    async claim(id, fingerprint, owner, keyId) {
      const [state, detail] = await connection.run(() =>
        client.claimRequest(redisKey(id), bytesKey(keyId), fingerprint, owner, claimMs, storedBytesMax),
      )
      if (state === 'answered') return { state, answer: JSON.parse(detail) as StoredResponse }
      return state === 'full' ? { state, resetAt: Date.now() + detail } : { state }
    },
    async complete(id, fingerprint, answer, keyId) {
      const json = JSON.stringify(answer)
      await connection.run(() => client.completeRequest(redisKey(id), bytesKey(keyId), fingerprint, json, resultMs))
    },
    async release(id, owner) {
      await connection.run(() => client.releaseRequest(redisKey(id), owner))
    },
  }
}
