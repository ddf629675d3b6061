import { messages } from '../messages/en.ts'
import { useView } from '../state/hooks.ts'
import { Button } from '../ui/button.tsx'

/** Takes all filters off the view. */
export function ClearFilters({ kind }: { kind?: 'quiet' }) {
  const { setView } = useView()
  return (
    <Button
      {...(kind && { kind })}
      onClick={() => {
        setView({ filters: [] })
      }}
    >
      {messages.filters.clear}
    </Button>
  )
}
