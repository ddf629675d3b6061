import { QueryClientProvider } from '@tanstack/preact-query'
import { LocationProvider } from 'preact-iso/router'
import { queryClient } from '../api/hooks.ts'
import { Announcements } from '../ui/announce.tsx'
import { ErrorBoundary } from './error-boundary.tsx'
import { GuardedLocation } from './guarded-location.tsx'
import { SessionGate } from './session-gate.tsx'
import type { Secret } from './sign-in-secret.ts'

/** The dashboard. `secret` signs in, when the address held one. */
export function App({ secret }: { secret: Secret | undefined }) {
  return (
    <ErrorBoundary>
      <QueryClientProvider client={queryClient}>
        <LocationProvider>
          <GuardedLocation>
            <SessionGate secret={secret} />
          </GuardedLocation>
        </LocationProvider>
      </QueryClientProvider>
      <Announcements />
    </ErrorBoundary>
  )
}
