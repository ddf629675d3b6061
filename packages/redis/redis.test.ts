import { describeWithRedis, testRedis } from '../../tests/support/engines/test-engines.ts'
import { describeIdempotency } from './conformance/idempotency.ts'
import { describeLifetimes } from './conformance/lifetimes.ts'
import { describeLimiter } from './conformance/limiter.ts'
import { describeSessions } from './conformance/sessions.ts'
import { describeSignInCodes } from './conformance/sign-in-codes.ts'

const createUrl = () => testRedis()?.url ?? ''

describeWithRedis('redis', () => {
  describeLimiter('redis', createUrl)
  describeSessions('redis', createUrl)
  describeSignInCodes('redis', createUrl)
  describeIdempotency('redis', createUrl)
  describeLifetimes('redis', createUrl)
})
