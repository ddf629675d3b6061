import type { Result } from 'ioredis'
import type { IdempotencyStore, StoredResponse } from '@sluice/access/idempotency'
import type { Times } from './port.ts'
import type { RedisConnection } from './redis-connection.ts'

type ClaimReply = [state: 'new' | 'running' | 'other'] | [state: 'answered', json: string]

declare module 'ioredis' {
  interface RedisCommander<Context> {
    claimRequest(key: string, fingerprint: string, owner: string, claimMs: number): Result<ClaimReply, Context>
    completeRequest(key: string, fingerprint: string, json: string, resultMs: number): Result<number, Context>
    releaseRequest(key: string, owner: string): Result<number, Context>
  }
}

const claimScript = `
local claim = redis.call('hmget', KEYS[1], 'fingerprint', 'answer')
if not claim[1] then
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
return redis.call('pexpire', KEYS[1], ARGV[3])
`

const releaseScript = `
local claim = redis.call('hmget', KEYS[1], 'owner', 'answer')
if claim[1] ~= ARGV[1] or claim[2] then return 0 end
return redis.call('del', KEYS[1])
`

/** Keeps claims and results of requests as hashes at `answer:<id>`, which expire in Redis. */
export function redisIdempotency(connection: RedisConnection, { claimMs, resultMs }: Times): IdempotencyStore {
  const { client } = connection
  client.defineCommand('claimRequest', { numberOfKeys: 1, lua: claimScript })
  client.defineCommand('completeRequest', { numberOfKeys: 1, lua: completeScript })
  client.defineCommand('releaseRequest', { numberOfKeys: 1, lua: releaseScript })
  const redisKey = (id: string): string => `answer:${id}`

  return {
    async claim(id, fingerprint, owner) {
      const [state, json] = await connection.run(() => client.claimRequest(redisKey(id), fingerprint, owner, claimMs))
      return state === 'answered' ? { state, answer: JSON.parse(json) as StoredResponse } : { state }
    },
    async complete(id, fingerprint, answer) {
      await connection.run(() => client.completeRequest(redisKey(id), fingerprint, JSON.stringify(answer), resultMs))
    },
    async release(id, owner) {
      await connection.run(() => client.releaseRequest(redisKey(id), owner))
    },
  }
}
