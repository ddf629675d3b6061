import { Component, type ComponentChildren } from 'preact'
import { messages } from '../messages/en.ts'
import { Button } from '../ui/button.tsx'
import { EmptyState } from '../ui/states.tsx'

interface Props {
  children: ComponentChildren
  /** The address of the page: another value renders the children again after an error. */
  resetKey?: string
}

/** Shows what went wrong in place of the part of the page that failed. */
export class ErrorBoundary extends Component<Props, { error: unknown; failedKey: string | undefined }> {
  override state = { error: undefined, failedKey: undefined }

  override componentDidCatch(error: unknown): void {
    this.setState({ error, failedKey: this.props.resetKey })
  }

  override componentDidUpdate(): void {
    // The children may work when the reader comes back to the address.
    this.setState(({ failedKey }, { resetKey }) =>
      failedKey === undefined || failedKey === resetKey ? null : { error: undefined, failedKey: undefined },
    )
  }

  override render({ children, resetKey }: Props) {
    const { error, failedKey } = this.state as { error: unknown; failedKey: string | undefined }
    if (error === undefined || failedKey !== resetKey) return children
    return (
      <EmptyState
        isPage
        icon="triangle-alert"
        title={messages.errors.crashed}
        why={
          <>
            {messages.errors.crashedWhy}
            <code class="crash">{error instanceof Error ? error.message : JSON.stringify(error)}</code>
          </>
        }
        action={<Button onClick={() => location.reload()}>{messages.errors.reload}</Button>}
      />
    )
  }
}
