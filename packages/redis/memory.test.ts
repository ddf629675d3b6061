import { describeIdempotency } from './conformance/idempotency.ts'
import { describeLifetimes } from './conformance/lifetimes.ts'
import { describeLimiter } from './conformance/limiter.ts'
import { describeSessions } from './conformance/sessions.ts'
import { describeSignInCodes } from './conformance/sign-in-codes.ts'

const createUrl = () => 'memory:'

describeLimiter('memory', createUrl)
describeSessions('memory', createUrl)
describeSignInCodes('memory', createUrl)
describeIdempotency('memory', createUrl)
describeLifetimes('memory', createUrl)
