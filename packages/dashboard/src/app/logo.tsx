/** The sign of Sluice: three gates of water. */
export function Logo() {
  return (
    <span class="logo">
      <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
        <path d="M1 5h18M1 10h12M1 15h7" />
      </svg>
      Sluice
    </span>
  )
}
